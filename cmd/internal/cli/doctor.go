package cli

func doctor(s streams, args []string) (int, error) { return statusFailed, nil }
