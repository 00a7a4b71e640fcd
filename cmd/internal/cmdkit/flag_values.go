package cmdkit

import (
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A RepeatedValue is a flag value whose String cannot be parsed again, because the flag is given once
// for each value.
type RepeatedValue interface {
	flag.Value
	Values() []string
}

// A StringList is the value of a flag that may be repeated.
type StringList []string

// String implements [flag.Value].
func (l *StringList) String() string { return strings.Join(*l, ",") }

// Set adds a value.
func (l *StringList) Set(name string) error {
	*l = append(*l, name)
	return nil
}

// A CommaList is the value of a flag that may be repeated, or given once with commas.
type CommaList []string

// String implements [flag.Value].
func (l *CommaList) String() string { return strings.Join(*l, ",") }

// Set adds the values between the commas.
func (l *CommaList) Set(value string) error {
	for one := range strings.SplitSeq(value, ",") {
		if one = strings.TrimSpace(one); one != "" {
			*l = append(*l, one)
		}
	}
	return nil
}

// A CodeFlag is the value of -e, which may be repeated. All values together are one program.
type CodeFlag []string

// String returns the program.
func (c *CodeFlag) String() string { return strings.Join(*c, "\n") }

// Set adds lines to the program.
func (c *CodeFlag) Set(part string) error {
	*c = append(*c, part)
	return nil
}

// A ByteSize is a flag value in bytes: 512M, 8G, 1.5GiB.
type ByteSize int64

// String returns the size in the largest unit that divides it, or "" for 0.
func (s *ByteSize) String() string {
	n := int64(*s)
	for i := len(sizeUnits) - 1; n != 0 && i >= 0; i-- {
		if unit := int64(1) << (10 * i); n%unit == 0 {
			return strconv.FormatInt(n/unit, 10) + strings.TrimSpace(sizeUnits[i:i+1])
		}
	}
	return ""
}

// sizeUnits are the first letters of the units, each 1024 times the one before.
const sizeUnits = " KMGT"

// Set parses a size, whose unit may be in either case.
func (s *ByteSize) Set(text string) error {
	number := strings.TrimRight(strings.ToUpper(strings.TrimSpace(text)), "IB")
	power := 0
	if n := len(number); n > 0 {
		if i := strings.IndexByte(sizeUnits, number[n-1]); i > 0 {
			number, power = number[:n-1], i
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	v = math.Round(math.Ldexp(v, 10*power))
	if err != nil || !(v > 0 && v < math.MaxInt64/2) {
		return fmt.Errorf("invalid size %q; write 512M or 8G", text)
	}
	*s = ByteSize(v)
	return nil
}
