package kube

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

// askEvery is how often the API is asked about a Job that the watch has never shown.
const askEvery = 30 * time.Second

// Delete deletes the Job of an attempt with its pods, and returns once the watch says
// that all are gone, see the package's documentation. What is kept stays, see [Runner.Keeps].
func (r *Runner) Delete(ctx context.Context, a jobs.Attempt) (int, error) {
	return r.delete(ctx, deletion{r: r, a: a, asked: map[types.UID]bool{}})
}

// killGrace is the grace period of pods that are killed, in seconds. With 0 the API would forget a
// pod whose processes may still run: 1 is the least after which the node confirms their end.
const killGrace = 1

// Kill implements [jobs.Killer].
func (r *Runner) Kill(ctx context.Context, a jobs.Attempt) (int, error) {
	return r.delete(ctx, deletion{r: r, a: a, asked: map[types.UID]bool{}, kills: true, killed: map[types.UID]bool{}})
}

func (r *Runner) delete(ctx context.Context, d deletion) (int, error) {
	err := d.run(ctx)
	if err == nil {
		r.arrived(d.a)
	}
	return d.calls, err
}

// deletion is one call of Delete.
type deletion struct {
	r        *Runner
	a        jobs.Attempt
	calls    int
	notFound bool               // the API has no such Job
	asked    map[types.UID]bool // pods that were deleted themselves; true: by force
	kills    bool               // pods get killGrace, whatever their spec says
	killed   map[types.UID]bool // those that have got it
}

func (d *deletion) run(ctx context.Context) error {
	for {
		w, err := d.r.watching(ctx)
		if err != nil {
			return err
		}
		done, err := d.with(ctx, w)
		if done || err != nil {
			return err
		}
	}
}

// with deletes while that Watch runs; false where it ended before all was gone.
func (d *deletion) with(ctx context.Context, w *watcher) (bool, error) {
	t, release := w.use(d.a)
	defer release()
	w.mu.Lock()
	t.deleting = true
	w.mu.Unlock()
	for synced := false; !synced; {
		select {
		case <-w.synced: // and knows what the Job is called
			synced = true
		case <-w.ended:
			return false, nil
		case <-time.After(doubtWait):
			if err := d.r.health.lacks(); err != nil {
				return false, shell.Permanent(explained("delete the Job of attempt "+d.a.Name(), err))
			}
		case <-ctx.Done():
			return false, d.unfinished(ctx)
		}
	}
	if time.Now().Before(d.r.Keeps(d.a)) {
		return true, nil
	}
	if err := d.deleteJob(ctx, w); err != nil {
		return false, err
	}
	for {
		w.mu.Lock()
		s, changed := d.next(t, time.Now()), t.changed
		w.mu.Unlock()
		if s.done {
			return true, nil
		}
		for uid, name := range s.pods {
			if err := d.deletePod(ctx, uid, name, s.force[uid]); err != nil {
				return false, err
			}
		}
		select {
		case <-changed:
		case <-time.After(s.wait):
			if !d.notFound && s.unseen {
				if err := d.deleteJob(ctx, w); err != nil {
					return false, err
				}
			}
		case <-w.ended:
			return false, nil
		case <-ctx.Done():
			return false, d.unfinished(ctx)
		}
	}
}

func (d *deletion) unfinished(ctx context.Context) error {
	return fmt.Errorf("delete the Job of attempt %s: it or its pods are still there: %w", d.r.NameOf("", d.a), ctx.Err())
}

// step is what is to be done next.
type step struct {
	done   bool
	unseen bool                 // the API had a Job that the watch has not shown
	pods   map[types.UID]string // to be deleted, by name
	force  map[types.UID]bool
	wait   time.Duration // for a change, at most
}

// next says what is to be done, as things stand.
func (d *deletion) next(t *track, now time.Time) step {
	s := step{wait: askEvery, pods: map[types.UID]string{}, force: map[types.UID]bool{}}
	s.unseen = t.job == nil && !t.jobSeen
	if !t.inCluster() {
		s.done = !s.unseen || d.notFound
		return s
	}
	for uid, pod := range t.pods {
		forced, asked := d.asked[uid]
		switch {
		case d.kills && !d.killed[uid]:
			s.pods[uid] = pod.Name // the Job's deletion would leave it its own grace period
		case pod.DeletionTimestamp == nil && t.job == nil && (!s.unseen || d.notFound) && !asked:
			s.pods[uid] = pod.Name // nobody else deletes it
		case pod.DeletionTimestamp != nil && nodeLost(pod) && !forced:
			if wait := since(&t.stuckSince, now, graceOf(pod)+stuckFor); wait > 0 {
				s.wait = min(s.wait, wait)
			} else {
				s.pods[uid], s.force[uid] = pod.Name, true
			}
		}
	}
	return s
}

// deleteJob deletes the Job that the watch has shown, or that this process has created; else
// those that the API knows by the attempt's labels.
func (d *deletion) deleteJob(ctx context.Context, w *watcher) error {
	d.notFound = false
	if job := w.jobOf(d.a); job != nil {
		return d.deleteNamed(ctx, job.Name)
	}
	if name := d.r.nameOfExpected(d.a); name != "" {
		return d.deleteNamed(ctx, name)
	}
	var found []batchv1.Job
	n, err := d.r.retried(ctx, "list Jobs of attempt "+d.a.Name(), nil, func(ctx context.Context) (err error) {
		found, err = d.r.listJobs(ctx, d.a)
		return err
	})
	d.calls += n
	d.notFound = err == nil && len(found) == 0
	for i := range found {
		if err == nil {
			err = d.deleteNamed(ctx, found[i].Name)
		}
	}
	return err
}

func (d *deletion) deleteNamed(ctx context.Context, name string) error {
	foreground := metav1.DeletePropagationForeground
	n, err := d.r.retried(ctx, "delete Job "+name, nil, func(ctx context.Context) error {
		err := d.r.client.Jobs(d.r.namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &foreground})
		if apierrors.IsNotFound(err) {
			d.notFound = true
			return nil
		}
		return err
	})
	d.calls += n
	return err
}

// deletePod deletes a pod itself: by force, where nobody will confirm its end.
func (d *deletion) deletePod(ctx context.Context, uid types.UID, name string, force bool) error {
	o := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	if d.kills {
		o.GracePeriodSeconds = new(int64)
		*o.GracePeriodSeconds = killGrace
		d.killed[uid] = true
	}
	if force {
		o.GracePeriodSeconds = new(int64)
		d.r.log.WarnContext(ctx, "deleting a pod by force: the cluster has given up its node", "pod", name, "run", d.a.Run, "attempt", d.a.N)
	}
	n, err := d.r.retried(ctx, "delete pod "+name, nil, func(ctx context.Context) error {
		err := d.r.client.Pods(d.r.namespace).Delete(ctx, name, o)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone, or another has its name
			return nil
		}
		return err
	})
	d.calls += n
	d.asked[uid] = force
	return err
}
