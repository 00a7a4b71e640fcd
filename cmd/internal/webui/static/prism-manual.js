// Prism must only return tokens, and not search the document for code.
window.Prism = { manual: true };
