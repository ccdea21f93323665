// What tests ask of a page's looks; evaluated in it as one expression.
({
  /** Of a picture (PNG, base64): how many colours it has, and how much is of the commonest one. */
  async colours(encoded) {
    const bytes = Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0));
    const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = new OffscreenCanvas(picture.width, picture.height);
    const context = canvas.getContext("2d");
    context.drawImage(picture, 0, 0);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    const pixels = new Uint32Array(data.buffer);
    const seen = new Map();
    for (const pixel of pixels) seen.set(pixel, (seen.get(pixel) ?? 0) + 1);
    return [seen.size, Math.max(...seen.values()) / pixels.length];
  },

  /** What is wider than the window, unless it can be scrolled where it stands. */
  stickingOut() {
    const apart = ".wide, pre, select, .out-of-sight, .skip, dialog";
    const found = [...document.body.querySelectorAll("*")]
      .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest(apart))
      .filter((one) => {
        const { left, right, width } = one.getBoundingClientRect();
        return width > 0 && (right > innerWidth + 1 || left < -1);
      })
      .map((one) => `${one.tagName} ${one.className} ${one.id}`);
    const { scrollWidth, scrollTop } = document.documentElement;
    if (scrollWidth > innerWidth) found.push("the document");
    if (scrollTop > 0) found.push("it is scrolled");
    return found;
  },

  /** Text with less contrast than WCAG asks for (4.5 to 1) against what is painted behind it. */
  pale() {
    const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const parts = (colour) => {
      context.clearRect(0, 0, 1, 1);
      context.fillStyle = colour;
      context.fillRect(0, 0, 1, 1);
      return [...context.getImageData(0, 0, 1, 1).data];
    };
    const light = (colour) => {
      const [r, g, b] = colour.slice(0, 3).map((one) => {
        const part = one / 255;
        return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (one) => {
      for (let at = one; at; at = at.parentElement) {
        const colour = parts(getComputedStyle(at).backgroundColor);
        if (colour[3] === 255) return colour;
      }
      return [255, 255, 255, 255];
    };
    const speaks = (one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const seen = { opacityProperty: true, visibilityProperty: true };
    return [...document.body.querySelectorAll("*")]
      .filter((one) => speaks(one) && one.checkVisibility(seen))
      .filter((one) => !one.closest(":disabled, noscript, .out-of-sight, .skip, option"))
      .map((one) => {
        const ink = light(parts(getComputedStyle(one).color));
        const back = light(behind(one));
        const contrast = (Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05);
        return [contrast, `${one.tagName}.${one.className}: ${one.textContent.slice(0, 30)}`];
      })
      .filter(([contrast]) => contrast < 4.5)
      .map(([contrast, name]) => `${contrast.toFixed(2)} ${name}`);
  },

  /** What can be used, or stands for a part, and has no name for whoever does not see it. */
  nameless() {
    const byText = (one) => one.matches("button, a, dialog") && one.textContent.trim() !== "";
    const byLabel = (one) => one.getAttribute("aria-label") || one.getAttribute("aria-labelledby");
    return [...document.querySelectorAll("button, input, select, textarea, a, dialog, nav, aside")]
      .filter((one) => one.checkVisibility())
      .filter((one) => !byText(one) && !byLabel(one) && !one.labels?.length)
      .map((one) => one.outerHTML.slice(0, 80));
  },
})
