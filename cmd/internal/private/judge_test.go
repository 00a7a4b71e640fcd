package private

import (
	"slices"
	"testing"
)

func TestOthers_AreAllButTheUserAndWhoRunsTheMachine(t *testing.T) {
	const (
		me    = "S-1-5-21-1-2-3-1001"
		her   = "S-1-5-21-1-2-3-1002"
		users = "S-1-5-32-545"
		read  = 0x120089
		full  = 0x1f01ff
	)
	for name, test := range map[string]struct {
		list []entry
		want []string
	}{
		"nobody at all":              {nil, nil},
		"the user alone":             {[]entry{{who: me, mask: full}}, nil},
		"a profile's usual list":     {[]entry{{who: system, mask: full}, {who: administrators, mask: full}, {who: me, mask: full}}, nil},
		"the owner, by that name":    {[]entry{{who: ownerRights, mask: full}}, nil},
		"everyone may read":          {[]entry{{who: me, mask: full}, {who: everyone, mask: read}}, []string{everyone}},
		"another may change it":      {[]entry{{who: her, mask: 0x2}}, []string{her}},
		"another may give rights":    {[]entry{{who: her, mask: 0x40000}}, []string{her}},
		"each is named once":         {[]entry{{who: users, mask: read}, {who: her, mask: read}, {who: users, mask: 1}}, []string{users, her}},
		"an entry without a right":   {[]entry{{who: her}}, nil},
		"only what is made below":    {[]entry{{who: her, mask: full, flags: inheritOnly | 3}}, nil},
		"inherited counts":           {[]entry{{who: users, mask: read, flags: 0x10}}, []string{users}},
		"a denial gives nothing":     {[]entry{{kind: 1, who: her, mask: full}}, nil},
		"and does not take it back":  {[]entry{{kind: 1, who: her, mask: full}, {who: her, mask: full}}, []string{her}},
		"with a condition":           {[]entry{{kind: 9, who: her, mask: read}}, []string{her}},
		"of a kind nobody can judge": {[]entry{{kind: 5, mask: read}}, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := others(test.list, me); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	for who, want := range map[string]bool{me: true, system: true, administrators: true, her: false, users: false, everyone: false, ownerRights: false, "": false} {
		if got := trusted(who, me); got != want {
			t.Errorf("%q may own it: %v, want %v", who, got, want)
		}
	}
}
