// One picture as PNG or SVG, its words beneath it. Shared by the buttons in notebooks and pages and by
// Figure.save, which runs it in a browser without a window.
//
// view: the Bokeh view of the figure's root. words: {reading, alt, title}; an empty reading draws none.
// Returns a data URL (PNG) or the text of the file (SVG).
function labkitExport(view, type, words) {
  const {width, height} = view.bbox
  const font = "13px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
  const lines = wrapped(labkitUnbroken(words.reading || ""), width - 24, font)
  const room = lines.length ? 18 * lines.length + 14 : 0
  const layer = view.export(type)
  return type == "svg" ? asSvg() : asPng()

  function wrapped(text, most, used) {
    const pen = document.createElement("canvas").getContext("2d")
    pen.font = used
    const found = []
    for (const word of text.split(" ").filter((one) => one != "")) {
      const last = found.length - 1
      if (last >= 0 && pen.measureText(found[last] + " " + word).width <= most) found[last] += " " + word
      else found.push(word)
    }
    return found.map((line) => line.replaceAll("\u00a0", " "))
  }

  function asPng() {
    const ratio = layer.pixel_ratio
    const canvas = document.createElement("canvas")
    canvas.width = Math.round(width * ratio)
    canvas.height = Math.round((height + room) * ratio)
    const pen = canvas.getContext("2d")
    pen.fillStyle = "white"
    pen.fillRect(0, 0, canvas.width, canvas.height)
    pen.drawImage(layer.canvas, 0, 0)
    pen.scale(ratio, ratio)
    pen.font = font
    pen.fillStyle = "#444444"
    lines.forEach((line, i) => pen.fillText(line, 12, height + 18 * (i + 1)))
    return canvas.toDataURL("image/png")
  }

  function asSvg() {
    const safe = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;")
    const inner = layer.ctx.get_serialized_svg(true)
    const written = lines.map((line, i) => `<text x="12" y="${height + 18 * (i + 1)}">${safe(line)}</text>`)
    return `<?xml version="1.0" encoding="UTF-8"?>\n` +
      `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height + room}" ` +
      `viewBox="0 0 ${width} ${height + room}" role="img" aria-labelledby="labkit-title labkit-desc">` +
      `<title id="labkit-title">${safe(words.title || words.reading || "figure")}</title>` +
      `<desc id="labkit-desc">${safe(words.alt || "")}</desc>` +
      `<rect width="100%" height="100%" fill="white"/>${inner}` +
      `<g style="font: ${font.replace(/"/g, "'")}" fill="#444444">${written.join("")}</g></svg>\n`
  }
}

// Keep numbers with their units, and with what they count, by spaces at which no line is broken.
function labkitUnbroken(text) {
  return text.replace(/(?<=\d) (?=[%\p{L}\p{N}_])/gu, "\u00a0")
}

// Hand a picture to the user as a file.
async function labkitDownload(view, type, words) {
  const made = labkitExport(view, type, words)
  const blob = type == "svg" ? new Blob([made], {type: "image/svg+xml"}) : await (await fetch(made)).blob()
  const link = document.createElement("a")
  link.href = URL.createObjectURL(blob)
  link.download = `${words.name || "labkit"}.${type}`
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

// The two buttons under a picture. find() gives the view when it is drawn.
function labkitButtons(find, words) {
  const row = document.createElement("span")
  row.className = "labkit-save"
  for (const type of ["png", "svg"]) {
    const button = document.createElement("button")
    button.type = "button"
    button.textContent = type.toUpperCase()
    button.title = `Save this picture as ${type.toUpperCase()}`
    button.setAttribute("aria-label", button.title)
    button.addEventListener("click", () => { const view = find(); if (view) labkitDownload(view, type, words) })
    row.append(button)
  }
  return row
}

// The toolbar's buttons find it here.
globalThis.labkitDownload = labkitDownload
