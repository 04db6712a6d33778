// Finds accessibility problems of a page: one line each, with the rule and the element. The rules are those of WCAG 2.2
// (A and AA) that can be decided from the document.
(() => {
  const found = [];
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest("[aria-hidden=true], head");
  const say = (e) => e.outerHTML.replace(/\s+/g, " ").slice(0, 140);
  const report = (rule, e) => found.push(rule + ": " + (e instanceof Element ? say(e) : e));
  const words = (e) => (e.textContent || "").trim();

  // The name that a screen reader says of an element.
  const name = (e) => {
    const by = (e.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean).map((id) => document.getElementById(id));
    if (by.length) return by.map((b) => (b ? words(b) : "")).join(" ").trim();
    if (e.getAttribute("aria-label")) return e.getAttribute("aria-label").trim();
    if (e.labels && e.labels.length) return [...e.labels].map(words).join(" ").trim();
    if (e.matches("img, area")) return (e.getAttribute("alt") || "").trim();
    if (e.matches("svg")) return words(e.querySelector(":scope > title") || document.createElement("i"));
    if (e.matches("input[type=submit], input[type=button]")) return (e.value || "").trim();
    if (e.matches("input, select, textarea")) return "";
    return (words(e) || all("img, svg", e).map(name).join(" ") || e.getAttribute("title") || "").trim();
  };

  // The document and its landmarks.
  if (!document.documentElement.lang) report("the document names no language", document.documentElement);
  if (!document.title.trim()) report("there is no title", "head");
  const zoom = document.querySelector("meta[name=viewport]");
  if (!zoom || /user-scalable\s*=\s*no|maximum-scale/.test(zoom.content)) report("it can't be enlarged", zoom || "head");
  if (document.querySelector("meta[http-equiv=refresh]")) report("it reloads by itself", "head");
  if (all("main").length !== 1) report("there is not one main landmark", "body");
  if (all("h1").filter(shown).length !== 1) report("there is not one first heading", "body");
  let level = 0;
  for (const h of all("h1, h2, h3, h4, h5, h6").filter(shown)) {
    const n = Number(h.tagName[1]);
    if (n > level + 1 && level > 0) report("a level of headings is left out", h);
    if (!words(h)) report("a heading is empty", h);
    level = n;
  }
  const landmarks = all("nav, aside, form[aria-label], section[aria-label], section[aria-labelledby]").filter(shown);
  for (const l of landmarks) {
    if (!name(l) && (l.matches("aside") || all(l.tagName.toLowerCase()).filter(shown).length > 1)) report("one landmark of several has no name", l);
    if (name(l) && landmarks.some((o) => o !== l && o.tagName === l.tagName && name(o) === name(l))) report("two landmarks have one name", l);
  }
  for (const e of all("body > *").filter(shown)) {
    if (!e.matches("header, main, footer, nav, aside, .skip, script")) report("it is in no landmark", e);
  }

  // Ids and references.
  const ids = new Map();
  for (const e of all("[id]")) ids.set(e.id, (ids.get(e.id) || 0) + 1);
  for (const [id, n] of ids) if (n > 1) report("an id is there " + n + " times", id);
  for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
    for (const e of all("[" + attribute + "]")) {
      for (const id of e.getAttribute(attribute).split(/\s+/)) if (!ids.has(id)) report(attribute + " names nothing", e);
    }
  }
  const roles = ["alert", "status", "img", "list", "listitem", "region", "presentation", "none", "group", "progressbar", "log", "table", "row", "cell", "columnheader", "rowheader", "navigation", "search", "meter"];
  for (const e of all("[role]")) if (!roles.includes(e.getAttribute("role"))) report("a role that is none, or that nothing here has", e);

  // Controls.
  const usable = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
  for (const e of all("a[href], button, summary, input:not([type=hidden]), select, textarea").filter(shown)) {
    if (!name(e)) report("it has no name", e);
    if (/^(here|click here|more|link)$/i.test(name(e))) report("its name says nothing", e);
  }
  for (const e of all("a:not([href])").filter(shown)) report("a link leads nowhere", e);
  for (const e of all("[tabindex]")) if (e.tabIndex > 0) report("the order of keys is not that of the page", e);
  for (const e of all("[aria-hidden=true]")) if (e.querySelector(usable) || e.matches(usable)) report("it is hidden, and keys reach it", e);
  for (const e of all("[onclick], [onload], [onerror], [style]")) report("it has code or style of its own", e);
  for (const e of all("button, .button, input[type=range], select").filter(shown)) {
    const box = e.getBoundingClientRect();
    if (box.height < 24 || box.width < 24) report("it is too small to hit", e);
  }
  for (const e of all("a a, a button, button a, button button, label label")) report("one control is in another", e);
  for (const e of all("body *").filter(shown)) {
    const style = getComputedStyle(e);
    const scrolls = (axis, has, room) => /auto|scroll/.test(axis) && has > room + 1;
    if (scrolls(style.overflowX, e.scrollWidth, e.clientWidth) || scrolls(style.overflowY, e.scrollHeight, e.clientHeight)) {
      if (e.tabIndex < 0 && !e.querySelector(usable)) report("keys can't scroll it", e);
    }
  }

  // Pictures, tables, lists.
  for (const e of all("img")) if (!e.hasAttribute("alt")) report("a picture has no text", e);
  for (const e of all("svg").filter(shown)) if (e.getAttribute("role") !== "img" || !name(e)) report("a drawing is neither named nor hidden", e);
  for (const t of all("table").filter(shown)) {
    if (!t.querySelector("th")) report("a table has no headers", t);
    for (const h of all("th", t)) {
      if (!h.hasAttribute("scope")) report("a header without a scope", h);
      if (!words(h)) report("a header is empty", h);
    }
    const wide = (r) => [...r.cells].reduce((n, c) => n + c.colSpan, 0);
    const rows = all("tr", t).map(wide);
    if (new Set(rows).size > 1) report("the rows of a table are not of one width", t);
  }
  for (const e of all("li")) if (!e.parentElement.matches("ul, ol, menu")) report("an entry is in no list", e);
  for (const e of all("dt, dd")) if (!e.parentElement.matches("dl, dl > div")) report("a term is in no list of terms", e);
  for (const e of all("ul, ol")) if ([...e.children].some((c) => !c.matches("li, script, template"))) report("a list has a child that is not an entry", e);

  // Contrast, of the colours as rendered. A canvas converts any color notation.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const colour = (text) => {
    if (!known.has(text)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = "#000";
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(text, { r, g, b, a: a / 255 });
    }
    return known.get(text);
  };
  const over = (top, below) => ({ r: top.r * top.a + below.r * (1 - top.a), g: top.g * top.a + below.g * (1 - top.a), b: top.b * top.a + below.b * (1 - top.a), a: 1 });
  const ground = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) layers.push(colour(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), matchMedia("(prefers-color-scheme: dark)").matches ? { r: 0, g: 0, b: 0, a: 1 } : { r: 255, g: 255, b: 255, a: 1 });
  };
  const light = ({ r, g, b }) => {
    const part = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.data.trim() || !shown(e) || e.closest("script, style, title, desc, .hide, template, :disabled, option")) continue;
    const style = getComputedStyle(e);
    const below = ground(e.closest("svg") ? e.closest("svg").parentElement : e);
    const ink = over(colour(e instanceof SVGElement ? style.fill : style.color), below);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = contrast(ink, below);
    const what = "contrast of " + ratio.toFixed(2) + " (" + style.color + ")";
    if (ratio < (large ? 3 : 4.5) && !seen.has(what)) {
      seen.add(what);
      report(what, e);
    }
  }
  return found;
})()
