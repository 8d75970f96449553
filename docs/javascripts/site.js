// What the theme makes when a page is shown, for readers without a mouse, or without a screen.
// SPDX-License-Identifier: Apache-2.0
"use strict";

/** Wide tables scroll by the arrow keys as well; search and the buttons of code have names. */
function name_all() {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (wrap.scrollWidth > wrap.clientWidth) wrap.tabIndex = 0;
    else wrap.removeAttribute("tabindex");
  }
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-code__nav").forEach((nav, number) => nav.setAttribute("aria-label", `Code ${number + 1}`));
}

new MutationObserver(name_all).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", name_all);
name_all();
