package happening_test

import (
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/eventstore/aggregatetest"
)

var other = uuid.MustParse("44444444-4444-4444-8444-444444444444")

func TestMergeAndSplit(t *testing.T) {
	t.Parallel()
	// Recorded in the one that stays.
	merge := happening.Merge{
		From:   other,
		Reason: "match",
		Score:  0.9,
		At:     now,
	}
	theirs := observe(concert("Concert (live)", 20), post)
	theirs.SourceID, theirs.Of = platform, other
	split := happening.Split{From: other, Sources: []uuid.UUID{platform}, At: now}
	stays := aggregatetest.Stream(t, happening.Aggregate).Of(observed).
		When(merge).Then(happening.Merged(merge)).
		When(theirs).Then(happening.Observed(theirs)).
		When(happening.Separate{From: other, At: now}).Then(split)
	stays.When(merge).Refused(happening.ErrApart)
	aggregatetest.Stream(t, happening.Aggregate).Of(observed).
		When(happening.Separate{From: other, At: now}).Refused(happening.ErrNotMerged)

	// Recorded in the other one.
	into := happening.Merge{
		Into:   older,
		Reason: "match",
		Score:  0.9,
		At:     now,
	}
	aggregatetest.Stream(t, happening.Aggregate).Of(observed).
		When(into).Then(happening.Merged(into)).
		When(happening.Merge{Into: other, At: now}).Refused(happening.ErrMergedElsewhere)
	aggregatetest.Stream(t, happening.Aggregate).Of(observed, happening.Merged(into)).
		When(happening.Separate{Into: older, At: now}).Then(happening.Split{Into: older, At: now}).
		When(into).Refused(happening.ErrApart)
}

// A source with both happenings keeps its sighting of the one that stays after a split.
func TestSplit_removesSightings(t *testing.T) {
	t.Parallel()
	own := observe(concert("Concert", 20), block)
	own.Of = other
	third := own
	third.SourceID, third.Of = platform, older
	aggregatetest.Stream(t, happening.Aggregate).
		Of(observed, happening.Merged{From: other, Members: []uuid.UUID{older}, At: now}, happening.Observed(own),
			happening.Observed(third)).
		When(happening.Separate{From: other, At: now}).
		Then(happening.Split{
			From:    other,
			Members: []uuid.UUID{older},
			Sources: []uuid.UUID{platform},
			At:      now,
		}).
		When(own).Refused(happening.ErrNotMerged)
}

// A split member leaves the happening that it was merged into last; the other members stay.
func TestSplit_member(t *testing.T) {
	t.Parallel()
	theirs, member := observe(concert("Concert", 20), block), observe(concert("Concert", 20), block)
	theirs.SourceID, theirs.Of = platform, other
	member.SourceID, member.Of = uuid.MustParse("55555555-5555-4555-8555-555555555555"), older
	merge := happening.Merge{From: other, At: now}
	// an interrupted merge, repeated
	late := happening.Merge{From: other, Members: []uuid.UUID{older}, At: now}
	aggregatetest.Stream(t, happening.Aggregate).Of(observed).
		When(merge).Then(happening.Merged(merge)).
		When(theirs).Then(happening.Observed(theirs)).
		When(member).Refused(happening.ErrNotMerged)
	aggregatetest.Stream(t, happening.Aggregate).Of(observed, happening.Merged(merge)).
		When(late).Then(happening.Merged(late)).
		When(late).Then().
		When(theirs).Then(happening.Observed(theirs)).
		When(member).Then(happening.Observed(member)).
		When(happening.Separate{From: older, At: now}).
		Then(happening.Split{From: older, Sources: []uuid.UUID{member.SourceID}, At: now}).
		When(happening.Separate{From: older, At: now}).Then().
		When(theirs).Then().
		When(member).Refused(happening.ErrNotMerged)
}
