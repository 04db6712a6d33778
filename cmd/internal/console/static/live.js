// What scripts add to pages that work without them.
"use strict";

// The slider of a time line shows its moment when it is let go.
for (const slider of document.querySelectorAll(".slider input[type=range]")) {
  slider.addEventListener("change", () => slider.form.submit());
}
