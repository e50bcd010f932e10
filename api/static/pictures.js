"use strict";
// Draws the figures that the page carries as JSON. Without this script the page says the same in tables.
for (const holder of document.querySelectorAll("[data-picture]")) {
  const figure = JSON.parse(document.getElementById(holder.dataset.picture).textContent);
  const text = getComputedStyle(document.body).color;
  const line = getComputedStyle(document.body).getPropertyValue("--line");
  figure.layout.font = { color: text, family: "system-ui, sans-serif" };
  for (const axis of ["xaxis", "yaxis"]) {
    figure.layout[axis] = Object.assign({}, figure.layout[axis], { gridcolor: line, linecolor: line, zerolinecolor: line });
  }
  holder.hidden = false;
  Plotly.newPlot(holder, figure.data, figure.layout, { responsive: true, displaylogo: false, displayModeBar: false });
}
