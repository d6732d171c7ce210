// A classic script in the head: the theme is known before anything is painted.
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = () => document.getElementById("theme");

  function chosen() {
    try {
      return localStorage.getItem("lode-theme");
    } catch {
      return null; // storage may be forbidden; the system's theme it is, then
    }
  }

  function remember(theme) {
    try {
      // What the system says anyway need not be remembered: then the page follows it again.
      if ((theme === "dark") === dark.matches) localStorage.removeItem("lode-theme");
      else localStorage.setItem("lode-theme", theme);
    } catch {
      /* it lasts as long as this page */
    }
  }

  function show(theme) {
    root.dataset.theme = theme;
    button()?.setAttribute("aria-pressed", String(theme === "dark"));
  }

  const showChosen = () => show(chosen() ?? (dark.matches ? "dark" : "light"));
  showChosen();
  dark.addEventListener("change", showChosen);
  addEventListener("DOMContentLoaded", () => {
    showChosen();
    button().addEventListener("click", () => {
      const next = root.dataset.theme === "dark" ? "light" : "dark";
      remember(next);
      show(next);
    });
  });
})();
