// The script of a chart's frame. It draws the chart in the document, or those that the page sends, with
// the library that is loaded after it. The page trusts none of its messages.
"use strict";
(() => {
  // Libraries make HTML from strings to decode entities and to build tables. Only these elements come out of
  // it. The content policy stops scripts in their attributes, and everything that they would load.
  const tags = "a b br button caption code col colgroup div em fieldset form g h1 h2 h3 h4 h5 h6 hr i img input label legend li ol optgroup option p path pre select small span strong style sub sup svg table tbody td textarea tfoot th thead tr u ul";
  const others = new RegExp("<(?!/?(?:" + tags.replaceAll(" ", "|") + ")(?![\\w:-]))", "gi");
  self.trustedTypes?.createPolicy("default", { createHTML: (text) => text.replace(others, "&lt;") });

  const tell = (message) => parent.postMessage(message, "*"); // the frame does not know the page's origin by itself
  const reason = (e) => String(e?.message ?? e).slice(0, 300);
  const chartHeight = 450; // pixels, of a chart that names none

  // Nothing of a chart's own settings may offer to send it elsewhere.
  const config = (own) => ({ ...own, responsive: true, displaylogo: false, plotlyServerURL: "", showLink: false, showSendToCloud: false, showEditInChartStudio: false });

  // WebGL traces compile code from text, which is not allowed here. SVG traces have the same properties.
  const inSVG = (traces) => traces?.map((one) => ({ ...one, type: one.type?.replace(/gl$/, "") }));

  // In the dark, the colours of plotly's default template give way to those of the page, unless the chart has
  // a background of its own. The rules are a part of the picture, so it is light where it is printed.
  const night = `@media (prefers-color-scheme: dark) {
    html, .svg-container > :first-child { background: #1b1e22 !important; color-scheme: dark }
    style + rect, .bg[style*="fill: rgb(255, 255, 255)"] { fill: #1b1e22 !important }
    [style*="fill: rgb(229, 236, 246)"] { fill: #262b31 !important }
    .crisp[style*="stroke: rgb(255, 255, 255)"] { stroke: #3d444c !important }
    text[style*="fill: rgb(42, 63, 95)"] { fill: #d3d6da !important }
  }`;
  const flat = /^(scatter|bar|box|violin|histogram\w*|heatmap|contour|pie|sunburst|funnel|waterfall|scatterpolar)?$/; // their colours are those
  function nightOf({ data, layout }) {
    const base = layout?.template?.layout;
    return base?.paper_bgcolor === "white" && base.plot_bgcolor === "#E5ECF6" && !layout.paper_bgcolor && !layout.plot_bgcolor && data?.every((one) => flat.test(one.type ?? "")) ? night : "";
  }

  function plotly(spec, place) {
    const data = inSVG(spec.data), layout = { ...spec.layout };
    const style = document.createElement("style");
    style.textContent = nightOf({ data, layout });
    document.head.append(style);
    if (!layout.height) layout.height = chartHeight;
    return Plotly.newPlot(place, data, layout, config(spec.config)).then(() => spec.frames && Plotly.addFrames(place, spec.frames.map((one) => ({ ...one, data: inSVG(one.data) }))));
  }

  // Vega loads nothing: it gets no address but that of an image in the data, and a link leads nowhere.
  const loader = {
    load: async () => { throw new Error("nothing is loaded here"); },
    sanitize: async (address, { context }) => context === "image" && address.startsWith("data:image/") ? { href: address } : {},
  };

  // vegaView draws a chart of Vega, or of Vega-Lite that was compiled to it. Its expressions are interpreted.
  async function vegaView(library, spec, place, renderer) {
    if (spec.height === "container") place.style.height = chartHeight + "px";
    const chart = library === "vega-lite" ? vegaLite.compile(spec).spec : spec;
    const logger = vega.logger(vega.Error, "", (method, level, [e]) => { throw e instanceof Error ? e : new Error(e); }); // otherwise an empty chart would be drawn
    const view = new vega.View(vega.parse(chart, null, { ast: true }), { expr: vega.expressionInterpreter, loader, logger, renderer, hover: true, container: place });
    try {
      return await view.runAsync();
    } catch (e) {
      view.finalize(); // ends its timers
      throw e;
    }
  }

  const draw = {
    plotly,
    bokeh: (spec, place) => Bokeh.embed.embed_item(spec, place),
    vega: (spec, place) => vegaView("vega", spec, place, "svg"),
    "vega-lite": (spec, place) => vegaView("vega-lite", spec, place, "svg"),
  };

  // live draws the chart of this document, and reports its height whenever that changes.
  function live(spec, library) {
    const place = document.getElementById("place");
    const measure = () => tell({ height: Math.ceil(place.getBoundingClientRect().height) });
    new ResizeObserver(measure).observe(place);
    addEventListener("error", (e) => tell({ failed: reason(e) }));
    addEventListener("unhandledrejection", (e) => tell({ failed: reason(e.reason) }));
    Promise.resolve().then(() => draw[library](JSON.parse(spec), place)).then(() => { measure(); tell({ drawn: true }); }, (e) => tell({ failed: reason(e) }));
  }

  async function plotlyPicture({ data: traces, layout, config: own }, width) {
    const data = inSVG(traces), size = { width: layout?.width || width, height: layout?.height || chartHeight };
    const svg = await Plotly.toImage({ data, layout: { ...layout, ...size }, config: config(own) }, { format: "svg", imageDataOnly: true, ...size });
    return { svg: svg.replace(">", `><style>${nightOf({ data, layout })}</style>`), ...size };
  }

  async function vegaPicture(library, spec, width) {
    const place = document.createElement("div"); // a chart may take its width
    place.style.width = width + "px";
    document.documentElement.append(place); // a chart can empty the body
    try {
      const view = await vegaView(library, spec, place, "none");
      const svg = await view.toSVG();
      view.finalize();
      const [, ...size] = /^<svg[^>]* width="([\d.]+)" height="([\d.]+)"/.exec(svg);
      return { svg, width: Number(size[0]), height: Number(size[1]) };
    } finally {
      place.remove();
    }
  }

  // picture draws a chart of the page as SVG.
  async function picture(library, { id, spec, width }) {
    try {
      const chart = JSON.parse(spec);
      tell({ id, ...await (library === "plotly" ? plotlyPicture(chart, width) : vegaPicture(library, chart, width)) });
    } catch (e) {
      tell({ id, failed: reason(e) });
    }
  }

  addEventListener("DOMContentLoaded", () => {
    tell({ ready: true });
    const { textContent: spec, dataset: { library } } = document.getElementById("spec");
    if (spec) live(spec, library);
    else {
      let last = Promise.resolve(); // one picture after the other
      addEventListener("message", (e) => { if (e.source === parent) last = last.then(() => picture(library, e.data)); });
    }
  });
})();
