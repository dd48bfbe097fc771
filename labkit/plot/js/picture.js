// A Bokeh picture in a notebook: BokehJS comes from the kernel, once per page, so nothing is fetched from
// elsewhere and no copy of it is stored in the notebook. Changes travel both ways, as with Bokeh's server.

const STYLE = `
.labkit-picture { margin: 0; max-width: 100%; overflow-x: auto; }
.labkit-picture figcaption { color: var(--jp-ui-font-color1, #444); font-size: var(--jp-ui-font-size1, 13px);
  line-height: 1.4; max-width: 60rem; padding: 2px 0 4px; }
.labkit-save { white-space: nowrap; }
.labkit-save button { font: inherit; font-size: .85em; margin-left: .5em; padding: 0 .4em; cursor: pointer;
  color: inherit; background: none; border: 1px solid var(--jp-border-color1, #bbb); border-radius: 3px; }
.labkit-save button:focus-visible { outline: 2px solid #0072B2; }
/* In a dark theme a picture is turned to light on dark; its hues stay, and what is saved stays as it was. */
:is([data-jp-theme-light="false"], .vscode-dark) .labkit-drawn { filter: invert(.95) hue-rotate(180deg) brightness(1.3); }
.labkit-picture .labkit-failed { color: var(--jp-error-color1, #b00); }`

function bokehjs(model) {
  if (window.Bokeh?.embed && window.Bokeh.require) return Promise.resolve(window.Bokeh)
  window.labkitBokeh ??= held(model).catch(() => asked(model)).then(async (packed) => {
    const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))
    const script = document.createElement("script")
    script.textContent = await new Response(plain).text()
    document.head.append(script)
    return window.Bokeh
  }).catch((error) => { window.labkitBokeh = undefined; throw error })
  return window.labkitBokeh
}

// The first picture of a kernel holds BokehJS: no need to wait for a busy kernel.
async function held(model) {
  const id = model.get("holder")
  const owner = id ? await model.widget_manager.get_model(id) : model
  const packed = owner.get("library")
  if (!packed?.byteLength) throw new Error("no library")
  return packed
}

function asked(model) {
  return new Promise((resolve, reject) => {
    const refused = setTimeout(() => {
      model.off("msg:custom", hear)
      reject(new Error("the kernel did not answer; run the cell again when it is free"))
    }, 300_000)
    function hear(message, buffers) {
      if (message?.kind != "bokehjs") return
      clearTimeout(refused)
      model.off("msg:custom", hear)
      resolve(buffers[0])
    }
    model.on("msg:custom", hear)
    model.send({kind: "bokehjs"})
  })
}

const WIDGET = "application/vnd.jupyter.widget-view+json"

// A widget in a saved notebook is an error message when the file is opened without its kernel: where a still
// picture stands beside it, the file gets that one alone. What the page shows stays as it is.
function saveStills(model) {
  const book = model.widget_manager?.context?.model
  if (typeof book?.toJSON != "function" || book.labkitStills) return
  book.labkitStills = true
  const whole = book.toJSON.bind(book)
  const still = (output) => {
    if (!output.data?.["image/png"] || !output.data[WIDGET]) return output
    const {[WIDGET]: _, ...data} = output.data
    return {...output, data}
  }
  book.toJSON = () => {
    const made = whole()
    const cells = made.cells?.map((cell) => cell.outputs ? {...cell, outputs: cell.outputs.map(still)} : cell)
    return cells ? {...made, cells} : made
  }
}

// Keep the document in the page and the one in the kernel alike.
function connect(Bokeh, bokehDocument, model) {
  const {Receiver} = Bokeh.require("protocol/receiver")
  const {Serializer} = Bokeh.require("core/serialization")
  const receiver = new Receiver()
  const bytes = (view) => view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength)
  let isPatching = false
  const tell = (event) => {
    if (isPatching) return
    const references = new Map([...event.document._all_models.values()].map((one) => [one, one.ref()]))
    model.send({...new Serializer({references}).encode(event), event: "jsevent"})
  }
  const hear = (message, buffers) => {
    if (message?.kind != "patch" && message?.msg != "patch") return
    receiver.consume(message.payload ?? bytes(buffers[0]))
    const whole = receiver.message
    if (whole == null || Object.keys(whole.content).length == 0) return
    isPatching = true
    try { bokehDocument.apply_json_patch(whole.content, whole.buffers) } finally { isPatching = false }
  }
  bokehDocument.on_change(tell)
  model.on("msg:custom", hear)
  return () => { model.off("msg:custom", hear); bokehDocument.remove_on_change(tell) }
}

async function render({model, el}) {
  saveStills(model)
  const figure = document.createElement("figure")
  figure.className = "labkit-picture"
  figure.style.margin = "0"
  const place = document.createElement("div")
  place.className = "labkit-drawn"
  const caption = document.createElement("figcaption")
  figure.append(Object.assign(document.createElement("style"), {textContent: STYLE}), place, caption)
  el.append(figure)
  let view = null
  let end = () => {}
  const words = () => ({reading: model.get("is_said") ? "" : model.get("reading"), alt: model.get("alt"),
                        title: model.get("reading"), name: model.get("name")})
  const say = () => {
    place.setAttribute("role", "group")
    place.setAttribute("aria-label", model.get("alt"))
    const text = document.createElement("span")
    text.textContent = labkitUnbroken(words().reading)
    caption.replaceChildren(text, labkitButtons(() => view, words()))
  }
  let latest = 0
  const draw = async () => {
    const Bokeh = await bokehjs(model)
    const mine = ++latest
    const {docs_json, render_items} = JSON.parse(model.get("render_bundle"))
    const {Document} = Bokeh.require("document")
    const {add_document_standalone} = Bokeh.require("embed/standalone")
    const bokehDocument = Document.from_json(Object.values(docs_json)[0])
    // The new picture is drawn out of sight and then takes the old one's place, so that nothing flickers.
    const fresh = document.createElement("div")
    fresh.style.cssText = "position: absolute; visibility: hidden"
    place.append(fresh)
    const ids = render_items.flatMap((item) => Object.keys(item.roots))
    const views = await add_document_standalone(bokehDocument, fresh, Object.fromEntries(ids.map((id) => [id, fresh])))
    if (mine != latest) { bokehDocument.clear(); fresh.remove(); return }  // another one is on its way
    end()
    view = [...views][0]
    const loose = connect(Bokeh, bokehDocument, model)
    end = () => { loose(); bokehDocument.clear() }
    fresh.style.cssText = ""
    place.replaceChildren(fresh)
    caption.style.maxWidth = `${Math.max(view.bbox.width, 300)}px`
  }
  const refuse = (error) => {
    const text = document.createElement("p")
    text.className = "labkit-failed"
    text.textContent = `This picture could not be drawn: ${error.message}`
    place.replaceChildren(text)
  }
  model.on("change:render_bundle", () => draw().catch(refuse))
  for (const name of ["reading", "alt", "is_said"]) model.on(`change:${name}`, say)
  say()
  await draw().catch(refuse)
  return () => end()
}

export default {render}
