package r_test

// allowUndefined lets the linker accept symbols that the loading program defines.
var allowUndefined = []string{"-Wl,-undefined,dynamic_lookup"}
