// Before anything is drawn, so that a chosen theme does not flash. "auto" follows the system.
document.documentElement.dataset.theme = localStorage.getItem("theme") || "auto";
