package posts

import (
	"regexp"
	"strings"

	"carillon/command/collect"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/markup"
)

var (
	placeMark  = regexp.MustCompile(`(?m)(?:📍|🏠|🏛️?|🗺️?)\s*:?\s*([^\n📅🗓📆⏰🕗🎟💶]+)`)
	placeLabel = regexp.MustCompile(`(?im)^\s*(?:where|venue|location|wo|ort|où|lieu|dónde|donde|lugar|dove|luogo|waar` +
		`|locatie|hvor|sted|var|plats|onde|local)\s*:\s*([^\n]+)`)
	onlineWord = regexp.MustCompile(`(?i)\b(?:via|on|per|auf|sur|por|su) (zoom|microsoft teams|ms teams|teams|google ` +
		`meet|youtube|twitch|discord)\b|\b(webinar|online[- ]vortrag|livestream|online[- ](?:event|workshop|talk))\b`)
)

// maxPlace is longer than any line with a place.
const maxPlace = 160

// place takes the place from a line that is marked as one. Places in sentences are ignored.
func (r *reader) place(c *candidate.Candidate) {
	for _, re := range []*regexp.Regexp{placeMark, placeLabel} {
		m := re.FindStringSubmatch(r.text.shown)
		if m == nil {
			continue
		}
		text := strings.Trim(strings.TrimSpace(noise.ReplaceAllString(tagsAnd.ReplaceAllString(m[1], " "), " ")), ".,;|–- ")
		if text == "" || len(text) > maxPlace {
			continue
		}
		c.Where.Text(text, func(link string) string { return link })
		c.Says(collect.FieldLocation, r.post.Field, "", m[0])
		return
	}
	if m := onlineWord.FindStringSubmatch(r.text.shown); m != nil {
		c.Where.IsOnline = true
		if m[1] != "" {
			c.Where.OnPlatform(markup.Plain(m[1]))
		}
		c.Says(collect.FieldOnline, r.post.Field, "", m[0])
	}
}
