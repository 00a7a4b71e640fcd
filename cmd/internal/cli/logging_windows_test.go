package cli

const keepsOpenFiles = true
