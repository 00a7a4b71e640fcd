package cmdflags

const keepsOpenFiles = true
