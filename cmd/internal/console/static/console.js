// Scripts of pages that also work without them. Visible texts are in the templates.
"use strict";

// Times are shown in the zone of the visitor; their title is UTC.
const zone = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});
const place = zone.resolvedOptions().timeZone;
const stamp = /\d+ \w{3} \d{4}, \d\d:\d\d:\d\d UTC/g; // a time in a text
const typable = (at) => new Date(at - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19); // as fields have it
const length = (s) => {
  if (s < 120) return `${Math.floor(s)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  return s < 172800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} days`;
};
const ago = (at) => {
  const s = (Date.now() - at) / 1000;
  if (s < -1) return `in ${length(-s)}`;
  return s < 2 ? "just now" : `${length(s)} ago`;
};
const local = (page) => {
  for (const time of page.querySelectorAll("time[data-local]")) time.textContent = zone.format(new Date(time.dateTime));
  for (const part of page.querySelectorAll("[data-times], [data-times] title"))
    for (const text of part.childNodes)
      if (text.nodeType === Node.TEXT_NODE) text.data = text.data.replace(stamp, (utc) => zone.format(new Date(utc.replace(",", ""))));
  for (const time of page.querySelectorAll("time[data-ago]")) time.textContent = ago(Date.parse(time.dateTime));
  for (const cell of page.querySelectorAll(".wide tbody td:not([colspan], [data-label])")) { // for cards
    const label = cell.closest("table").tHead?.rows[0]?.cells[cell.cellIndex]?.textContent.trim();
    if (label) cell.dataset.label = label;
  }
};
local(document);
setInterval(() => document.hidden || local(document), 10_000);
if (place !== "UTC") {
  const parts = new Intl.DateTimeFormat("en-GB", { timeZoneName: "shortOffset" }).formatToParts();
  const offset = parts.find((part) => part.type === "timeZoneName").value.replace("GMT", "UTC");
  const named = place.startsWith("Etc/") ? offset : `${place} (${offset})`;
  for (const footer of document.querySelectorAll("[data-zone]"))
    footer.textContent = `Times are of ${named}; point at one for UTC. Events of feeds have their own zone.`;
  for (const mark of document.querySelectorAll("[data-utc]")) mark.hidden = true;
  for (const field of document.querySelectorAll(".filter input[type=datetime-local]")) {
    if (field.value) field.value = typable(new Date(`${field.value}Z`));
    field.form.addEventListener("formdata", ({ formData }) => {
      if (field.value) formData.set(field.name, new Date(field.value).toISOString().slice(0, 19));
    });
  }
}

// The slider of a time line shows its moment in the field beside it, and loads it when it is released, or with Enter. A
// moment can be typed as well. Its address is absolute.
for (const slider of document.querySelectorAll(".slider input[type=range]")) {
  const { from, until } = slider.form.dataset;
  const at = () => new Date(Date.parse(from) + ((Date.parse(until) - Date.parse(from)) * slider.value) / slider.max);
  const field = slider.form.elements.at;
  let typed = false;
  const show = () => {
    typed = false;
    field.value = typable(at());
    slider.setAttribute("aria-valuetext", zone.format(at()));
  };
  const go = (event) => {
    event?.preventDefault();
    const now = typed ? !field.value : slider.value === slider.max;
    location.href = slider.form.action + (now ? "" : "?at=" + (typed ? new Date(field.value) : at()).toISOString());
  };
  show();
  field.addEventListener("input", () => (typed = true));
  let keyed = false;
  slider.addEventListener("pointerdown", () => (keyed = false));
  slider.addEventListener("keydown", (event) => {
    keyed = true;
    if (event.key === "Enter") go(event);
  });
  slider.addEventListener("input", show);
  slider.addEventListener("change", () => keyed || go());
  slider.form.addEventListener("submit", go);
}

// In a frame of another site: a login link needs no click, since no preview shows frames, and the parent is told how high
// the page is.
if (parent !== window) {
  document.documentElement.dataset.framed = "";
  document.querySelector("form[data-enter]")?.requestSubmit();
  const tell = () => parent.postMessage({ type: "carillon:height", height: Math.ceil(document.body.getBoundingClientRect().height) }, "*");
  new ResizeObserver(tell).observe(document.body);
}

// Buttons that copy a text; only pages over TLS or of this machine may.
for (const button of navigator.clipboard ? document.querySelectorAll("[data-copy]") : []) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.classList.add("done");
  });
}

// The answer to a form has the address of the form's page in the history, so that going back does not send the form again.
if (document.querySelector("[data-answer]")) {
  history.replaceState(null, "", location.href);
}

// A page with data-live is fetched every few seconds while it is visible, and its parts (data-part) are replaced. A list
// (data-list) does not change while it is being read: a button says that there is more.
const live = document.querySelector("[data-live]");

if (live) {
  const interval = live.dataset.live * 1000;
  const news = document.querySelector("[data-news]");
  const parts = () => document.querySelectorAll("[data-part]");
  let timer;
  let last = Promise.resolve(); // the last refresh: one runs at a time

  const reading = (part) =>
    part.contains(document.activeElement) || ("list" in part.dataset && (part.matches(":hover") || part.getBoundingClientRect().top < 0));

  const replace = (part, html) => {
    const opened = [...part.querySelectorAll("details")].map((details) => details.open);
    part.innerHTML = html;
    part.querySelectorAll("details").forEach((details, i) => (details.open = opened[i]));
  };

  // Shows the state of the connection: cut, refused, or connected ("").
  const connection = (state) => {
    live.toggleAttribute("data-connected", !state);
    for (const notice of document.querySelectorAll("[data-connection]")) notice.hidden = notice.dataset.connection !== state;
  };

  const fresh = async () => {
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (answer.status >= 500 || answer.status === 429) throw new Error(answer.statusText);
    if (!answer.ok || answer.redirected) return undefined;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    local(page);
    return page;
  };

  const load = async (force) => {
    clearTimeout(timer);
    let refused = false;
    try {
      const page = await fresh();
      local(document); // ages grow on both
      refused = !page;
      connection(refused ? "refused" : "");
      let held = false;
      for (const part of page ? parts() : []) {
        const now = page.querySelector(`[data-part="${part.dataset.part}"]`);
        if (!now || now.innerHTML === part.innerHTML) continue;
        if (force || !reading(part)) replace(part, now.innerHTML);
        else if ("list" in part.dataset) held = true;
      }
      if (news) news.hidden = !held;
    } catch {
      connection("cut");
    }
    if (!refused && !document.hidden) timer = setTimeout(refresh, interval);
  };
  const refresh = (force) => (last = last.then(() => load(force)));

  news?.addEventListener("click", async () => {
    await refresh(true);
    document.querySelector("[data-list] a")?.focus();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : refresh()));
  timer = setTimeout(refresh, interval);
  live.toggleAttribute("data-connected", true);
}
