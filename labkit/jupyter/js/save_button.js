// A button that lets the kernel pack the user's work, takes the archive over in parts, and downloads it.
const PAUSE_MS = 250 // with parts of 250 kB this stays below what Jupyter's server lets a kernel send at a time

function render({ model, el }) {
  const button = document.createElement("button")
  button.textContent = "⬇ Download my work"
  button.title = "Packs the notebooks and files that you changed into one archive"
  button.className = "jupyter-widgets jupyter-button mod-primary"
  button.style.width = "14em"
  const words = document.createElement("div")
  words.setAttribute("role", "status")
  words.style.cssText = "white-space: pre-line; opacity: .85; margin: 4px 0; line-height: 1.4"
  words.textContent = model.get("hint")
  el.append(button, words)

  let parts = []
  let about = null
  const ask = (offset) => model.send({ kind: "part", offset })

  button.addEventListener("click", () => {
    button.disabled = true
    parts = []
    words.textContent = "Packing as soon as the kernel is free …"
    model.send({ kind: "pack" })
  })

  function take(content, buffers) {
    if (content.kind === "failed") {
      words.textContent = content.text
      button.disabled = false
    } else if (content.kind === "packed") {
      about = content
      ask(0)
    } else if (content.kind === "part" && about !== null && content.name === about.name) {
      const view = buffers[0]
      parts.push(new Uint8Array(view.buffer ?? view, view.byteOffset ?? 0, view.byteLength).slice())
      const got = parts.reduce((sum, part) => sum + part.byteLength, 0)
      if (got < about.size) {
        words.textContent = `Downloading: ${Math.round((100 * got) / about.size)} %`
        setTimeout(() => ask(got), PAUSE_MS)
      } else {
        save()
      }
    }
  }

  function save() {
    const link = document.createElement("a")
    link.href = URL.createObjectURL(new Blob(parts, { type: "application/zip" }))
    link.download = about.name
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
    words.textContent = about.text
    button.disabled = false
    about = null
  }

  model.on("msg:custom", take)
  return () => model.off("msg:custom", take)
}

export default { render }
