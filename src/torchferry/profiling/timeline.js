"use strict";
// Draws the lanes of one or two runs below each other on one canvas each, on one common scale of time.
(() => {
  const data = JSON.parse(document.getElementById("timeline-data").textContent);
  const box = document.getElementById("timeline");
  const tip = document.getElementById("timeline-tip");
  const row = 14, gap = 6, labels = 150;
  const longest = Math.max(1, ...data.runs.map((run) => run.length));
  let left = 0, right = longest; // microseconds that are in view
  const style = getComputedStyle(document.body);
  const ink = style.color, faint = style.getPropertyValue("--faint") || ink;
  const hue = (text) => {
    let sum = 7;
    for (let i = 0; i < text.length; i++) sum = (sum * 31 + text.charCodeAt(i)) >>> 0;
    return sum % 360;
  };
  const tints = data.names.map((name) => `hsl(${hue(name)} 55% 62%)`);

  const views = data.runs.map((run) => {
    const head = document.createElement("h3");
    head.textContent = run.title;
    const canvas = document.createElement("canvas");
    canvas.tabIndex = 0;
    canvas.setAttribute("aria-label", run.title);
    box.append(head, canvas);
    let height = 20;
    const tops = run.lanes.map((lane) => {
      const top = height;
      height += lane.depth * row + gap;
      return top;
    });
    return { run, canvas, tops, height, drawn: [] };
  });

  const shown = (value) => (value >= 1000 ? `${(value / 1000).toFixed(3)} ms` : `${value.toFixed(1)} µs`);

  function draw(view) {
    const { canvas, run, tops, height } = view;
    const ratio = window.devicePixelRatio || 1, width = box.clientWidth;
    canvas.style.width = "100%";
    canvas.style.height = `${height}px`;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.clearRect(0, 0, width, height);
    pen.font = "11px ui-monospace, monospace";
    pen.textBaseline = "top";
    const scale = (width - labels) / (right - left);
    pen.fillStyle = faint;
    pen.strokeStyle = faint;
    const wanted = (right - left) / 6, power = 10 ** Math.floor(Math.log10(wanted));
    const tick = power * ([1, 2, 5, 10].find((factor) => factor * power >= wanted) || 10);
    for (let at = Math.ceil(left / tick) * tick; at < right; at += tick) {
      const x = labels + (at - left) * scale;
      pen.globalAlpha = 0.3;
      pen.beginPath();
      pen.moveTo(x, 14);
      pen.lineTo(x, height);
      pen.stroke();
      pen.globalAlpha = 1;
      const label = shown(at), reach = pen.measureText(label).width;
      if (x + 2 + reach <= width) pen.fillText(label, x + 2, 1);
      else if (x - 2 - reach > labels) pen.fillText(label, x - 2 - reach, 1); // beyond the edge it would be cut
    }
    view.drawn = [];
    run.lanes.forEach((lane, number) => {
      pen.fillStyle = faint;
      pen.fillText(lane.name.slice(0, 22), 2, tops[number] + 1);
      pen.save();
      pen.beginPath();
      pen.rect(labels, 0, width - labels, height);
      pen.clip();
      const last = new Float64Array(lane.depth).fill(-1); // the pixel that each depth is drawn to
      for (const slice of lane.slices) {
        const [start, length, name, depth] = slice;
        if (start + length < left || start > right) continue;
        const x = labels + (start - left) * scale, w = Math.max(length * scale, 0.7);
        if (x + w <= last[depth]) continue;
        last[depth] = x + w;
        const y = tops[number] + depth * row;
        pen.fillStyle = tints[name];
        pen.fillRect(x, y, w, row - 2);
        view.drawn.push([x, y, w, slice]);
        if (w > 40) {
          pen.fillStyle = "#111";
          pen.fillText(data.names[name].slice(0, Math.floor((w - 6) / 6.7)), Math.max(x, labels) + 3, y + 1);
        }
      }
      pen.restore();
    });
  }
  const drawAll = () => views.forEach(draw);

  function zoom(factor, at) {
    const length = Math.min(longest * 1.05, Math.max(1, (right - left) * factor));
    const share = (at - left) / (right - left);
    left = at - share * length;
    right = left + length;
    drawAll();
  }
  function move(by) {
    left += by;
    right += by;
    drawAll();
  }
  for (const view of views) {
    const { canvas } = view;
    const time = (event) => {
      const width = canvas.clientWidth - labels;
      return left + (Math.max(event.offsetX - labels, 0) / width) * (right - left);
    };
    let held = null;
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey && document.activeElement !== canvas) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, time(event));
    }, { passive: false });
    canvas.addEventListener("dblclick", () => { left = 0; right = longest; drawAll(); });
    canvas.addEventListener("pointerdown", (event) => { held = event.offsetX; canvas.setPointerCapture(event.pointerId); canvas.focus(); });
    canvas.addEventListener("pointerup", () => { held = null; });
    canvas.addEventListener("pointermove", (event) => {
      if (held !== null) {
        move(((held - event.offsetX) / (canvas.clientWidth - labels)) * (right - left));
        held = event.offsetX;
        return;
      }
      const over = view.drawn.find(([x, y, w]) => event.offsetX >= x && event.offsetX <= x + w && event.offsetY >= y && event.offsetY < y + row - 2);
      tip.textContent = over ? `${data.names[over[3][2]]} · ${shown(over[3][1])}` : data.hint;
    });
    canvas.addEventListener("keydown", (event) => {
      const step = (right - left) / 8, middle = (left + right) / 2;
      if (event.key === "+" || event.key === "w") zoom(0.7, middle);
      else if (event.key === "-" || event.key === "s") zoom(1.4, middle);
      else if (event.key === "ArrowLeft" || event.key === "a") move(-step);
      else if (event.key === "ArrowRight" || event.key === "d") move(step);
      else if (event.key === "0") { left = 0; right = longest; drawAll(); }
      else return;
      event.preventDefault();
    });
  }
  tip.textContent = data.hint;
  addEventListener("resize", drawAll);
  drawAll();
})();
