package securefile

import (
	"slices"
	"testing"
)

func TestOtherAccounts(t *testing.T) {
	const (
		me    = "S-1-5-21-1-2-3-1001"
		her   = "S-1-5-21-1-2-3-1002"
		users = "S-1-5-32-545"
		read  = 0x120089
		full  = 0x1f01ff
	)
	for name, test := range map[string]struct {
		list []aclEntry
		want []string
	}{
		"nobody at all":              {nil, nil},
		"the user alone":             {[]aclEntry{{sid: me, mask: full}}, nil},
		"a profile's usual list":     {[]aclEntry{{sid: systemSID, mask: full}, {sid: administratorsSID, mask: full}, {sid: me, mask: full}}, nil},
		"the owner, by that name":    {[]aclEntry{{sid: ownerRightsSID, mask: full}}, nil},
		"everyone may read":          {[]aclEntry{{sid: me, mask: full}, {sid: everyoneSID, mask: read}}, []string{everyoneSID}},
		"another may change it":      {[]aclEntry{{sid: her, mask: 0x2}}, []string{her}},
		"another may give rights":    {[]aclEntry{{sid: her, mask: 0x40000}}, []string{her}},
		"each is named once":         {[]aclEntry{{sid: users, mask: read}, {sid: her, mask: read}, {sid: users, mask: 1}}, []string{users, her}},
		"an entry without a right":   {[]aclEntry{{sid: her}}, nil},
		"only what is made below":    {[]aclEntry{{sid: her, mask: full, flags: inheritOnlyFlag | 3}}, nil},
		"inherited counts":           {[]aclEntry{{sid: users, mask: read, flags: 0x10}}, []string{users}},
		"a denial gives nothing":     {[]aclEntry{{kind: 1, sid: her, mask: full}}, nil},
		"and does not take it back":  {[]aclEntry{{kind: 1, sid: her, mask: full}, {sid: her, mask: full}}, []string{her}},
		"with a condition":           {[]aclEntry{{kind: 9, sid: her, mask: read}}, []string{her}},
		"of a kind nobody can judge": {[]aclEntry{{kind: 5, mask: read}}, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := otherAccounts(test.list, me); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	for who, want := range map[string]bool{me: true, systemSID: true, administratorsSID: true, her: false, users: false, everyoneSID: false, ownerRightsSID: false, "": false} {
		if got := isTrusted(who, me); got != want {
			t.Errorf("%q may own it: %v, want %v", who, got, want)
		}
	}
}
