// Says so when the program's own scripts cannot be loaded: without this the page would say "Loading" for ever. It is a
// file of its own because the content security policy forbids inline scripts.
addEventListener(
  "error",
  ({ target }) => {
    // During an upgrade a server of the other version may have answered, where the style sheet has another name.
    if (target instanceof HTMLLinkElement && target.rel === "stylesheet")
      setTimeout(() => target.replaceWith(target.cloneNode()), 2_000);
    if (!(target instanceof HTMLScriptElement)) return;
    const again = document.createElement("a");
    again.href = location.href;
    again.textContent = "Load again";
    document
      .querySelector(".starting p")
      ?.replaceChildren("The dashboard could not be loaded. Is Carillon running? ", again);
  },
  true,
);
