// What the theme leaves to do for readers who use a keyboard or a screen reader: names for the search and for the parts of
// the navigation, and code and tables that scroll and take the focus, so that the arrow keys reach their ends.
function name(selector, label) {
  document.querySelectorAll(selector).forEach((element, i) => element.setAttribute("aria-label", label(element, i)));
}

function scrolls(element) {
  return element.scrollWidth > element.clientWidth;
}

function letFocus() {
  for (const element of document.querySelectorAll(".md-typeset pre > code, .md-typeset__scrollwrap")) {
    if (scrolls(element)) element.tabIndex = 0;
    else element.removeAttribute("tabindex");
  }
}

addEventListener("load", () => {
  name(".md-search", () => "Search");
  name(".md-code__nav", (_, i) => `Code ${i + 1}`);
  for (const nav of document.querySelectorAll(".md-nav[aria-labelledby]")) {
    // The label of a section with a page of its own is empty; the title of its list is not.
    nav.setAttribute("aria-label", nav.querySelector(":scope > .md-nav__title").textContent.trim());
    nav.removeAttribute("aria-labelledby");
  }
  letFocus();
});
addEventListener("resize", letFocus);
