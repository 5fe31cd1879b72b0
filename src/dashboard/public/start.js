// Until the program itself is there, only this can say that it does not come: a page would stay as if it were
// loading. A file of its own: the content security policy lets no inline script in.
addEventListener(
  "error",
  ({ target }) => {
    // During an upgrade the other version may have been asked, which has a style of another name.
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
