// Glue between the page and its charts: what Bokeh draws, this moves. Regions come from the page as JSON.
(() => {
  const regions = JSON.parse(document.getElementById("regions").textContent);
  const model = (name) => Bokeh.documents.map((d) => d.get_model_by_name(name)).find((m) => m);

  function start() {
    const signal = model("signal");
    const range = signal.x_range;
    const [low, high] = range.bounds;

    // The height follows what is in view, and never shows more than at first: values far off stay beyond the edge.
    const sites = model("sites"), heights = signal.y_range;
    const whole = [heights.start, heights.end];
    const column = (name) => (sites.data instanceof Map ? sites.data.get(name) : sites.data[name]);
    function fit() {
      let foot = Infinity, top = -Infinity;
      const x = column("x");
      for (const name of ["y", "low", "level", "from", "to"]) {
        const values = column(name);
        for (let i = 0; values && i < x.length; i++) {
          if (x[i] < range.start || x[i] > range.end || !Number.isFinite(values[i])) continue;
          foot = Math.min(foot, values[i]);
          top = Math.max(top, values[i]);
        }
      }
      const margin = 0.08 * (top - foot) || 1;
      if (top >= foot) heights.setv({start: Math.max(whole[0], foot - margin), end: Math.min(whole[1], top + margin)});
    }
    let due = false;
    const later = () => {
      if (!due) requestAnimationFrame(() => { due = false; fit(); });
      due = true;
    };
    range.properties.start.change.connect(later);
    range.properties.end.change.connect(later);

    const view = (from, to) => {
      const width = Math.min(to - from, high - low);
      const left = Math.max(low, Math.min(from, high - width));
      range.setv({start: left, end: left + width});
    };
    const moves = {
      all: () => view(low, high),
      closer: () => zoom(0.5),
      wider: () => zoom(2),
      left: () => pan(-0.25),
      right: () => pan(0.25),
    };
    const zoom = (factor) => {
      const centre = (range.start + range.end) / 2, half = (range.end - range.start) * factor / 2;
      view(centre - half, centre + half);
    };
    const pan = (share) => {
      const step = (range.end - range.start) * share;
      view(range.start + step, range.end + step);
    };
    document.querySelectorAll("[data-move]").forEach((b) => b.addEventListener("click", () => moves[b.dataset.move]()));
    const keys = {ArrowLeft: "left", ArrowRight: "right", "+": "closer", "=": "closer", "-": "wider", 0: "all"};
    document.getElementById("along").addEventListener("keydown", (event) => {
      const move = keys[event.key];
      if (move && !event.ctrlKey && !event.metaKey && !event.altKey) {
        moves[move]();
        event.preventDefault();
      }
    });

    function choose(i, go) {
      const region = regions[i];
      document.querySelectorAll("[data-region]").forEach((b) => b.setAttribute("aria-pressed", b.dataset.region == i));
      document.querySelectorAll(".rivals").forEach((part) => { part.hidden = part.id != `region-${i}`; });
      const box = signal.center.find((m) => m.name == "selected") || model("selected");
      box.setv({left: region.left, right: region.right, visible: true});
      if (go) {
        const margin = Math.max((region.right - region.left) * 0.35, (high - low) / 1e4);
        view(region.left - margin, region.right + margin);
      }
      show(region);
    }
    function show(region) {
      const points = model("region-points");
      if (!points) return;
      points.data = {x: region.x, y: region.y};
      const width = region.to - region.from;
      model("region-inside").setv({left: region.shown_left, right: region.shown_right});
      const fig = model("region");
      fig.x_range.setv({start: region.from, end: region.to + 0.18 * width});
      const heights = [...region.y.filter((v) => v !== null), ...region.levels.map((l) => l.level)];
      const foot = Math.min(...heights), top = Math.max(...heights), margin = 0.08 * (top - foot) || 1;
      fig.y_range.setv({start: foot - margin, end: top + margin});
      // Labels of lines that are close are put above each other.
      const apart = (top - foot + 2 * margin) / 13, levels = [...region.levels].sort((a, b) => a.level - b.level);
      let last = -Infinity;
      model("region-levels").data = {
        left: levels.map(() => region.shown_left),
        right: levels.map(() => region.shown_right),
        level: levels.map((l) => l.level),
        label: levels.map((l) => l.label),
        height: levels.map((l) => (last = Math.max(l.level, last + apart))),
      };
      fig.below[0].axis_label = region.axis;
    }
    document.querySelectorAll("[data-region]").forEach((b) =>
      b.addEventListener("click", () => {
        choose(Number(b.dataset.region), true);
        document.getElementById("rivals-of").scrollIntoView({block: "nearest", behavior: "smooth"});
      }));
    if (regions.length) choose(0, false);
    // Colours of axes and texts are CSS variables: draw again when they change.
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
      Object.values(Bokeh.index).forEach((root) => root.invalidate_layout && root.invalidate_layout()));
    document.documentElement.dataset.ready = "true";
  }
  const wait = () => (window.Bokeh && Bokeh.documents.length && model("signal") && Object.keys(Bokeh.index).length
    ? start() : setTimeout(wait, 30));
  wait();
})();
