// Filters the claims of the report by verdict, by origin and by experiment. Without it every claim is shown.
"use strict";
(function () {
  const bar = document.querySelector(".filters");
  const buttons = Array.from(bar.querySelectorAll("button")), selects = Array.from(bar.querySelectorAll("select"));
  const claims = Array.from(document.querySelectorAll(".claims [data-status]"));
  const groups = Array.from(document.querySelectorAll(".claims .group"));
  let status = "";

  function show() {
    let count = 0;
    claims.forEach(function (claim) {
      const fits = (!status || claim.dataset.status === status)
        && selects.every(function (select) { return !select.value || claim.dataset[select.dataset.by] === select.value; });
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
    if (target && target.hidden) { status = ""; selects.forEach(function (select) { select.value = ""; }); show(); target.scrollIntoView(); }
  }

  buttons.forEach(function (b) { b.addEventListener("click", function () { status = b.dataset.status; show(); }); });
  selects.forEach(function (select) { select.addEventListener("change", show); });
  window.addEventListener("hashchange", follow);
  bar.hidden = false;
  show();
})();
