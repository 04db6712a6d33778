package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
)

// StateTable is the table of a process manager's state, in its schema.
const StateTable = "state"

// VerifyState folds the log again into fresh process managers, and compares the rows with those that the running one
// has saved, as of the position of its checkpoint. The result is stored as that of Verify.
func (r *Runner) VerifyState(
	ctx context.Context, fresh func() eventstore.ProcessManager, report func(at, head eventstore.Position),
) (v Verification, err error) {
	name := fresh().Traits().Name
	ctx, release, err := r.lockRebuild(ctx, name)
	if err == nil {
		defer release()
		v, err = r.verifyState(ctx, fresh, report)
	}
	if err == nil {
		err = v.save(ctx, r, name)
	}
	if err != nil {
		return Verification{}, fmt.Errorf("verify %s: %w", name, err)
	}
	return v, nil
}

func (r *Runner) verifyState(
	ctx context.Context, fresh func() eventstore.ProcessManager, report func(at, head eventstore.Position),
) (Verification, error) {
	head, err := r.Store.Head(ctx)
	if err != nil {
		return Verification{}, err
	}
	traits := fresh().Traits()
	folded := traits.Folded
	at := eventstore.Start
	fold := func(to eventstore.Position) error {
		of := ReadModel{Name: traits.Name, Filter: folded.Filter}
		return catchUp(ctx, r.Store, span{after: at, to: to}, of, r.Log, func(next stretch) error {
			for i := range next.events {
				if err := folded.Fold(&next.events[i]); err != nil {
					return err
				}
			}
			if at = next.end(); report != nil {
				report(at, head)
			}
			return nil
		})
	}
	if err := fold(head); err != nil {
		return Verification{}, err
	}
	saved, to, err := r.savedState(ctx, fresh, at)
	if err == nil && at.Before(to) {
		err = fold(to)
	}
	if err != nil {
		return Verification{}, err
	}
	rows, err := folded.Rows()
	if err != nil {
		return Verification{}, err
	}
	return compareState(fresh, saved, rows)
}

// savedState reads what the running process manager has saved, with the position, which is not before another one.
func (r *Runner) savedState(
	ctx context.Context, fresh func() eventstore.ProcessManager, after eventstore.Position,
) (rows []eventstore.SavedRow, at eventstore.Position, err error) {
	of := fresh().Traits()
	from := writer{r.Pool, of.Name}
	waiting, cancel := context.WithTimeout(ctx, maxBehind)
	defer cancel()
	for {
		err := pgx.BeginTxFunc(ctx, r.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, scoped, from.path()); err != nil {
				return err
			}
			held, there, err := loadCheckpoint(ctx, tx, of.Name)
			if err != nil {
				return err
			}
			if there && held.fingerprint != fingerprint(stateSchema(&of)) {
				return errors.New("another version of the program has made the state")
			}
			if at = held.position; at.Before(after) { // Start if nothing was saved yet
				return nil
			}
			found, err := tx.Query(ctx, "SELECT kind, id, data FROM state")
			if err != nil {
				return err
			}
			rows, err = pgx.CollectRows(found, pgx.RowToStructByPos[eventstore.SavedRow])
			return err
		})
		if err != nil || !at.Before(after) {
			return rows, at, err
		}
		r.Progress.save(of.Name) // if it runs here
		select {
		case <-waiting.Done():
			return nil, at, errors.Join(ctx.Err(), errBehind)
		case <-time.After(lagPoll):
		}
	}
}

// compareState compares rows as a process manager reads them: those of earlier versions may have other members.
func compareState(
	fresh func() eventstore.ProcessManager, saved, folded []eventstore.SavedRow,
) (v Verification, err error) {
	type key struct{ kind, id string }
	read := func(rows []eventstore.SavedRow) (map[key]any, error) {
		m := fresh()
		for _, row := range rows {
			if err := m.Restore(row); err != nil {
				return nil, err
			}
		}
		rows, err := m.Traits().Folded.Rows()
		values := map[key]any{}
		for _, row := range rows {
			var value any
			err = errors.Join(err, json.Unmarshal(row.Data, &value))
			values[key{row.Kind, row.ID}] = value
		}
		return values, err
	}
	live, err := read(saved)
	if err != nil {
		return v, err
	}
	want, err := read(folded)
	if err != nil {
		return v, err
	}
	differs := func(k key, kind string) {
		v.Differing++
		v.Differences = append(v.Differences, Difference{
			Table: StateTable,
			Key:   map[string]string{"kind": k.kind, "id": k.id},
			Kind:  kind,
		})
	}
	v.Sample, v.Rows = 100, int64(len(want))
	for k, value := range want {
		switch saved, there := live[k]; {
		case !there:
			differs(k, RowMissing)
		case !reflect.DeepEqual(saved, value):
			differs(k, RowChanged)
		}
	}
	for k := range live {
		if _, there := want[k]; !there {
			differs(k, RowAdded)
		}
	}
	slices.SortFunc(v.Differences, func(a, b Difference) int { return cmp.Compare(a.String(), b.String()) })
	v.Differences = v.Differences[:min(len(v.Differences), maxDifferences)]
	return v, nil
}
