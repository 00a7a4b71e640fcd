package r_test

// allowUndefined has a library be linked whose symbols the loading program defines.
var allowUndefined = []string{"-Wl,-undefined,dynamic_lookup"}
