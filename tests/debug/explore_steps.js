// What a user does on a page of `explore`; what is seen then becomes the text of the page. Run by test_explore.py.
window.addEventListener("load", () => {
  const found = {}, errors = [];
  window.onerror = (text) => errors.push(text);
  const see = (key) => { // on a phone one pane is seen at a time
    if (narrow.matches) showTab(key);
    for (const pane of panes) { pane.waiting = false; pane.drawNow(); }
  };
  const lit = (key) => { see(key); return [...document.querySelectorAll(`#pane-${key} .row.strong`)].map((e) => e.textContent); };
  const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  try {
    const line = panes[0].rows.findIndex((row) => row.text.includes("dnp.tanh"));
    panes[0].point(line);
    found.hover = { jaxpr: lit("jaxpr"), stablehlo: lit("stablehlo"), xla: lit("xla"), status: $("status").textContent };
    point(null);
    found.left = lit("jaxpr").length;

    const tree = panes[1].scroller;
    tree.focus();
    for (const key of ["Home", "ArrowDown", "ArrowDown", "Enter"]) press(tree, key);
    see("jaxpr");
    found.keyboard = { active: tree.getAttribute("aria-activedescendant"), source: lit("source").join() };
    press(tree, "Escape");

    see("jaxpr");
    const scan = panes[1].rows.findIndex((row) => row.text.includes("scan[")), before = panes[1].visible.length;
    panes[1].go(scan, false);
    press(tree, "ArrowLeft");
    see("jaxpr");
    found.fold = { before, after: panes[1].visible.length, expanded: $(`jaxpr-${scan}`).getAttribute("aria-expanded") };

    $("query").value = "reduce_sum";
    $("query").dispatchEvent(new Event("input"));
    jump(1);
    see("jaxpr");
    found.search = { text: $("found").textContent, marks: document.querySelectorAll("mark").length };

    $("program").value = "1";
    $("program").dispatchEvent(new Event("change"));
    see("xla");
    found.gradient = { rows: panes[1].rows.length, message: $("pane-xla").textContent.includes("was not compiled") };
    found.lines = document.querySelectorAll("#lines tbody tr").length;
    found.peak = document.querySelector("#memory .top").textContent;
    found.many = document.querySelectorAll("*").length;
    found.wide = document.documentElement.scrollWidth <= innerWidth;
    found.contrast = leastContrast();
  } catch (error) {
    errors.push(String(error.stack));
  }
  found.errors = errors;
  document.body.replaceChildren(JSON.stringify(found));
});

// The least contrast of letters on the grounds that they stand on, by the formula of WCAG.
function leastContrast() {
  const style = getComputedStyle(document.documentElement);
  const light = (name) => {
    const hex = style.getPropertyValue(name).trim();
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const inks = ["--text", "--muted", "--accent", "--keyword", "--number", "--type", "--comment", "--string"];
  const grounds = ["--back", "--raised", "--soft", "--strong", "--hover"];
  return Math.min(...inks.flatMap((ink) => grounds.map((ground) => {
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  })));
}
