package place

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"carillon/aggregates/happening"
)

// Certainty of a geo location, by its source.
const (
	scoreCoordinates = 100
	scoreStreet      = 90
	scoreVenue       = 70
	scoreRegion      = 60
)

// GeoLocations derives the geo locations of a happening from its place: a point if coordinates, a street or a venue
// are known, else the area.
func GeoLocations(venue string, a Address, geo *happening.Coordinates) []happening.GeoLocation {
	area := (Address{Locality: a.Locality, Region: a.Region, Country: a.Country}).String()
	name := cmp.Or(venue, a.Street, area)
	evidence := []string{a.String()}
	if geo != nil {
		evidence = append(evidence, strconv.FormatFloat(geo.Lat, 'f', -1, 64), strconv.FormatFloat(geo.Lng, 'f', -1, 64))
	}
	point := func(score int) []happening.GeoLocation {
		return []happening.GeoLocation{happening.NewGeoLocation(name, happening.AtLocation, score, evidence...)}
	}
	switch {
	case geo != nil && name != "":
		return point(scoreCoordinates)
	case a.Street != "":
		return point(scoreStreet)
	case venue != "":
		return point(scoreVenue)
	case area != "":
		return []happening.GeoLocation{happening.NewGeoLocation(area, happening.RelevanceRegion, scoreRegion, evidence...)}
	}
	return nil
}

// Coordinates parses a latitude and a longitude in degrees. nil means that they are missing or impossible; publishers
// write 0, 0 for "unknown".
func Coordinates(lat, lng string) *happening.Coordinates {
	c := happening.Coordinates{}
	for _, part := range []struct {
		text  string
		value *float64
		limit float64
	}{{lat, &c.Lat, 90}, {lng, &c.Lng, 180}} {
		v, err := strconv.ParseFloat(strings.Replace(strings.TrimSpace(part.text), ",", ".", 1), 64)
		// This form rejects NaN too.
		if err != nil || !(v >= -part.limit && v <= part.limit) {
			return nil
		}
		*part.value = v
	}
	if c.Lat == 0 && c.Lng == 0 {
		return nil
	}
	return &c
}

// platforms maps the registrable part of a host to the platform's name.
var platforms = map[string]string{
	"zoom.us": "Zoom", "zoom.com": "Zoom", "meet.google.com": "Google Meet",
	"teams.microsoft.com": "Microsoft Teams", "teams.live.com": "Microsoft Teams", "webex.com": "Webex",
	"youtube.com": "YouTube", "youtu.be": "YouTube", "twitch.tv": "Twitch", "vimeo.com": "Vimeo",
	"facebook.com": "Facebook", "fb.me": "Facebook", "instagram.com": "Instagram", "tiktok.com": "TikTok",
	"linkedin.com": "LinkedIn", "x.com": "X", "twitter.com": "X", "discord.gg": "Discord", "discord.com": "Discord",
	"gotomeeting.com": "GoTo Meeting", "gotowebinar.com": "GoTo Webinar", "hopin.com": "Hopin",
	"crowdcast.io": "Crowdcast", "streamyard.com": "StreamYard", "eventbrite.com": "Eventbrite",
	"meetup.com": "Meetup", "jitsi.org": "Jitsi", "meet.jit.si": "Jitsi", "whereby.com": "Whereby",
	"bigbluebutton.org": "BigBlueButton", "livestorm.co": "Livestorm", "airmeet.com": "Airmeet",
	"skype.com": "Skype", "slack.com": "Slack", "gather.town": "Gather",
}

// Platform returns the name of the online platform of a link: a known one, else the host.
func Platform(link string) string {
	name, _ := KnownPlatform(link)
	return name
}

// KnownPlatform returns the name of the online platform of a link as Platform does, and reports whether it is known.
func KnownPlatform(link string) (string, bool) {
	u, err := url.Parse(link)
	if err != nil {
		return "", false
	}
	host := strings.TrimPrefix(strings.ToLower(u.Hostname()), "www.")
	for domain := host; domain != ""; {
		if name, ok := platforms[domain]; ok {
			return name, true
		}
		_, domain, _ = strings.Cut(domain, ".")
	}
	return host, false
}
