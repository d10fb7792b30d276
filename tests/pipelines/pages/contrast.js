// Returns the lowest contrast of text and what is behind it, with the text, as the browser draws them.
() => {
  const seen = new Map();
  const parse = (colour) => {
    const found = colour.match(/[\d.]+/g).map(Number);
    const scale = colour.startsWith("color(") ? 255 : 1;
    return [...found.slice(0, 3).map((each) => each * scale), found[3] ?? 1];
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((each) => each / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, [r, g, b, a]) => [r, g, b].map((c, n) => a * c + (1 - a) * under[n]), [255, 255, 255]);
  };
  let least = [99, ""];
  for (const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walk.nextNode(); ) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || ["SCRIPT", "STYLE", "TITLE", "OPTION"].includes(element.tagName.toUpperCase())) continue;
    const style = getComputedStyle(element);
    const colour = element.closest("svg") ? style.fill : style.color;
    const key = [element.tagName, element.className, colour, element.parentElement?.className, element.parentElement?.tagName].join();
    if (seen.has(key)) continue;
    seen.set(key, true);
    const [one, other] = [light(parse(colour)), light(behind(element))].sort((a, b) => a - b);
    const ratio = (other + 0.05) / (one + 0.05);
    if (ratio < least[0]) least = [ratio, walk.currentNode.textContent.trim().slice(0, 80)];
  }
  return least;
}
