// Makes elements. Every text becomes a text node, so that a name with HTML in it shows as it is.

// h("div.row", {onclick}, "text", child): an element with classes, properties and children.
export function h(kind, props = {}, ...children) {
  const [tag, ...classes] = kind.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length > 0) element.className = classes.join(" ");
  return filled(element, props, children);
}

// The same for parts of an SVG picture.
export function svg(tag, props = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

// Buttons of which one is pressed.
export function switcher(names, chosen, choose) {
  const buttons = names.map(([key, text, title]) =>
    h("button", { type: "button", title, "aria-pressed": String(key === chosen), onclick: () => choose(key) }, text));
  return h("span.switcher", { role: "group" }, buttons);
}

// A table; a row is a list of cells, or {cells, open} if it can be opened.
export function table(heads, rows) {
  const line = (row) => {
    const cells = row.cells ?? row;
    const tds = cells.map((cell, at) => h(heads[at]?.startsWith("#") ? "td.number" : "td", {}, cell));
    if (!row.open) return h("tr", {}, tds);
    const onkeydown = (event) => event.key === "Enter" && row.open();
    const kind = row.chosen ? "tr.opens.chosen" : "tr.opens";
    return h(kind, { tabindex: 0, onclick: row.open, onkeydown }, tds);
  };
  const head = heads.map((text) => h(text.startsWith("#") ? "th.number" : "th", {}, text.replace("#", "")));
  return h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map(line)));
}

// A link inside the page.
export function link(text, open, title) {
  return h("button.link", { type: "button", onclick: open, title }, text);
}

// Shows one element in a place. One that is there already stays as it is, with its focus and where it is scrolled to.
export function swap(place, element) {
  if (place.childNodes.length !== 1 || place.firstChild !== element) place.replaceChildren(element);
}
