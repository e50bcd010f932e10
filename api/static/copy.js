"use strict";
// Gives each command a button that copies it. Without this script a command can be selected.
for (const command of document.querySelectorAll("[data-command]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command.textContent);
    } catch {  // a page without TLS has no clipboard: the older way works there
      getSelection().selectAllChildren(command);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
  });
  command.after(button);
}
