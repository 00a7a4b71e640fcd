package supervisor

import (
	"testing"
	"time"
)

func TestNextScanInterval(t *testing.T) {
	t.Parallel()
	looks, pause, silent := 0, firstScanDelay, time.Duration(0)
	for silent < time.Hour {
		silent += pause
		looks++
		next := nextScanInterval(pause, silent)
		if late := max(maxScanInterval, silent/silenceDivisor); next > late || next > maxSilentScanInterval {
			t.Fatalf("after %s of silence the next scan is in %s, want at most %s", silent, next, late)
		}
		pause = next
	}
	if most := int(time.Hour/maxSilentScanInterval) + 200; looks > most {
		t.Errorf("%d scans in an hour, want at most %d", looks, most)
	}
}
