// Elements from plain calls. Text is always text: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

let ids = 0;

/** An id nobody else on the page has. */
export function freshId(prefix) {
  ids += 1;
  return `${prefix}-${ids}`;
}

/** Replace what is in an element. A link or button that had the focus has it again if it is still there. */
export function replace(element, ...children) {
  const active = element.contains(document.activeElement) ? document.activeElement : null;
  const [name, value] = active?.hasAttribute("href") ? ["href", active.getAttribute("href")] : ["data-focus", active?.getAttribute("data-focus")];
  const region = active?.closest("[role=region]")?.getAttribute("aria-label");
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (!value) return;
  const same = [...element.querySelectorAll(`[${name}="${CSS.escape(value)}"]`)];
  const inside = same.find((one) => one.closest("[role=region]")?.getAttribute("aria-label") === region);
  (inside ?? same[0])?.focus({ preventScroll: true });
}

/** Call back with the element's width, now and whenever it changes; returns how to stop. */
export function onWidth(element, draw) {
  let width = 0;
  const observer = new ResizeObserver(([entry]) => {
    const next = Math.floor(entry.contentRect.width);
    if (next && next !== width) draw((width = next));
  });
  observer.observe(element);
  return () => observer.disconnect();
}
