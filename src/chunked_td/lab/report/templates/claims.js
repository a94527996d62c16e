// Filters the claims of the report by verdict and by experiment. Without it every claim is shown.
"use strict";
(function () {
  const bar = document.querySelector(".filters");
  const buttons = Array.from(bar.querySelectorAll("button")), select = bar.querySelector("select");
  const claims = Array.from(document.querySelectorAll(".claims [data-status]"));
  const groups = Array.from(document.querySelectorAll(".claims .group"));
  let status = "";

  function show() {
    let count = 0;
    claims.forEach(function (claim) {
      const fits = (!status || claim.dataset.status === status) && (!select.value || claim.dataset.study === select.value);
      claim.hidden = !fits;
      count += fits;
    });
    groups.forEach(function (group) { group.hidden = !group.querySelector("[data-status]:not([hidden])"); });
    buttons.forEach(function (b) { b.setAttribute("aria-pressed", String(b.dataset.status === status)); });
    bar.querySelector(".count").textContent = count + " of " + claims.length;
  }

  // A link to a claim that is filtered out shows all of them again.
  function follow() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.hidden) { status = ""; select.value = ""; show(); target.scrollIntoView(); }
  }

  buttons.forEach(function (b) { b.addEventListener("click", function () { status = b.dataset.status; show(); }); });
  select.addEventListener("change", show);
  window.addEventListener("hashchange", follow);
  bar.hidden = false;
  show();

  // Tables that are wider than the window say that they scroll.
  const boxes = Array.from(document.querySelectorAll(".scroll"));
  function measure() { boxes.forEach(function (b) { b.classList.toggle("wide", b.scrollWidth > b.clientWidth + 1); }); }
  window.addEventListener("resize", measure);
  measure();
})();
