package place

import (
	"runtime/debug"
	"strings"
	"sync"

	"github.com/ringsaturn/tzf"
	rellite "github.com/ringsaturn/tzf-rel-lite"
	tzfv1 "github.com/ringsaturn/tzf/gen/go/tzf/v1"
	"google.golang.org/protobuf/proto"

	"carillon/aggregates/happening"
)

// Maps of the zones, each loaded when it is first asked. Tiles that lie in one zone as a whole answer for nearly all
// points and take 8 MB. Only close to a border the borders themselves are needed, which take 30 MB, and 160 for the
// moment of loading.
var (
	tiles = sync.OnceValue(func() tzf.F {
		var index tzfv1.PreindexTimezones
		if proto.Unmarshal(rellite.PreindexData, &index) != nil {
			return nil
		}
		finder, err := tzf.NewFuzzyFinderFromPB(&index)
		if err != nil {
			return nil
		}
		return finder
	})
	borders = sync.OnceValue(func() tzf.F {
		finder, err := tzf.NewDefaultFinder()
		if err != nil {
			return nil
		}
		debug.FreeOSMemory() // what loading took is not needed again
		return finder
	})
)

// pointZone is the zone of a point, "" at sea.
func pointZone(c *happening.Coordinates) string {
	for _, finder := range []func() tzf.F{tiles, borders} {
		f := finder()
		if f == nil {
			continue
		}
		if name := f.GetTimezoneName(c.Lng, c.Lat); name != "" {
			if strings.HasPrefix(name, "Etc/") {
				return ""
			}
			return name
		}
	}
	return ""
}
