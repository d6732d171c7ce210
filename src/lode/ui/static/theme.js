// A classic script in the head: the theme is known before anything is painted.
(() => {
  const KEY = "lode-theme";
  const THEMES = ["system", "light", "dark"];
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = kept();

  function kept() {
    try {
      const theme = localStorage.getItem(KEY);
      return THEMES.includes(theme) ? theme : "system";
    } catch {
      return "system"; // storage may be forbidden
    }
  }

  function keep() {
    try {
      if (chosen === "system") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, chosen);
    } catch {
      /* the choice lasts as long as this page */
    }
  }

  function show() {
    root.dataset.theme = chosen === "system" ? (dark.matches ? "dark" : "light") : chosen;
    const choice = document.getElementById(`theme-${chosen}`);
    if (choice) choice.checked = true;
  }

  show();
  dark.addEventListener("change", show);
  addEventListener("DOMContentLoaded", () => {
    show();
    document.querySelector(".theme").addEventListener("change", (event) => {
      chosen = event.target.value;
      keep();
      show();
      const seen = chosen === "system" ? `Theme of the system, ${root.dataset.theme} now` : `Theme: ${chosen}`;
      document.getElementById("announcer").textContent = seen;
    });
  });
})();
