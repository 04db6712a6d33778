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

// Maps of the zones, loaded on first use. Tiles inside one zone suffice for nearly all points and take 8 MB. Points
// close to a border need the borders, which take 30 MB, and 160 MB while loading.
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
		debug.FreeOSMemory() // memory of the loading
		return finder
	})
)

// pointZone returns the zone of a point, "" at sea.
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
