package cmdkit

import "flag"

// A FlagGroup defines flags that belong together, and holds the user's choices.
type FlagGroup interface {
	AddFlags(f *flag.FlagSet)
}

// AddFlagGroups defines the flags of several groups.
func AddFlagGroups(f *flag.FlagSet, groups ...FlagGroup) {
	for _, g := range groups {
		g.AddFlags(f)
	}
}
