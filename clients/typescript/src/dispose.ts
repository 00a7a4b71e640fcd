/// <reference lib="esnext.disposable" preserve="true" />

/** The key of the method that `await using` calls. Node.js has it from 18.18 on; before that, nothing calls the method. */
export const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? Symbol.for("nodejs.asyncDispose");
