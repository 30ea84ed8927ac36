package core

import "github.com/google/uuid"

// scanQueueEvent: see [kind].
func scanQueueEvent(s *scan, name []byte) Event {
	switch string(name) {
	case "push":
		return s.queuePush()
	case "take":
		e := QueueTake{Holder: s.field(`,"holder":`)}
		s.want(`,"max":`)
		e.Max = s.uint32()
		s.want(`,"visibility_ms":`)
		e.VisibilityMS = s.int64()
		s.want(`,"owner":`)
		e.Owner = s.owner()
		return e
	case "complete":
		var e QueueComplete
		e.Item, e.Holder, e.Attempt = s.holding()
		if s.next(`,"result":`) {
			e.Result = s.raw()
		}
		return e
	case "fail":
		var e QueueFail
		e.Item, e.Holder, e.Attempt = s.holding()
		e.Error = s.field(`,"error":`)
		s.want(`,"permanent":`)
		e.Permanent = s.bool()
		return e
	case "extend":
		var e QueueExtend
		e.Item, e.Holder, e.Attempt = s.holding()
		s.want(`,"visibility_ms":`)
		e.VisibilityMS = s.int64()
		return e
	case "release":
		var e QueueRelease
		e.Item, e.Holder, e.Attempt = s.holding()
		if s.next(`,"delay_ms":`) {
			e.DelayMS = s.int64()
		}
		return e
	case "due":
		return QueueDue{}
	}
	s.fail()
	return nil
}

func (s *scan) queuePush() (e QueuePush) {
	e.Namespace = s.field(`,"namespace":`)
	e.Tenant = s.field(`,"tenant":`)
	e.Name = s.field(`,"name":`)
	s.want(`,"data":`)
	e.Data = s.raw()
	s.want(`,"priority":`)
	e.Priority = s.int32()
	e.Key = s.field(`,"key":`)
	e.DedupKey = s.field(`,"dedup_key":`)
	s.want(`,"delay_ms":`)
	e.DelayMS = s.int64()
	s.want(`,"owner":`)
	e.Owner = s.owner()
	if s.next(`,"ack":`) {
		e.Ack = s.owner()
	}
	return e
}

// holding reads what the events of a holder begin with.
func (s *scan) holding() (item uuid.UUID, holder string, attempt uint32) {
	s.want(`,"item":`)
	item = s.id()
	holder = s.field(`,"holder":`)
	s.want(`,"attempt":`)
	return item, holder, s.uint32()
}

// queueItem reads the stored form of an item.
func (s *scan) queueItem() (i QueueItem) {
	s.want(`{"id":`)
	i.ID = s.id()
	s.want(`,"queue":`)
	i.Queue = s.id()
	s.want(`,"data":`)
	i.Data = s.raw()
	s.want(`,"priority":`)
	i.Priority = s.int32()
	i.Key = s.field(`,"key":`)
	i.DedupKey = s.field(`,"dedup_key":`)
	s.want(`,"created_at":`)
	i.CreatedAt = s.time()
	s.want(`,"attempts":`)
	i.Attempts = s.uint32()
	s.want(`,"state":`)
	i.State = s.itemState()
	i.LastError = s.field(`,"last_error":`)
	s.want(`,"turn":`)
	i.Position = s.uint32()
	s.want(`,"place":`)
	i.ReadyPosition = s.uint32()
	s.want(`,"owner":`)
	i.Owner = s.owner()
	s.want(`,"origin":null}`) // dead letters are few
	return i
}

func (s *scan) itemState() (v ItemState) {
	s.want(`{"type":`)
	switch name := s.quoted(); string(name) {
	case string(ItemPending):
		v.Type = ItemPending
		if s.next(`,"until":`) {
			v.Until = s.time()
		}
	case string(ItemProcessing):
		v.Type = ItemProcessing
		s.want(`,"until":`)
		v.Until = s.time()
		v.Holder = s.field(`,"holder":`)
		s.want(`,"taken_at":`)
		v.TakenAt = s.time()
	case string(ItemCompleted):
		v.Type = ItemCompleted
		s.want(`,"until":`)
		v.Until = s.time()
		s.want(`,"at":`)
		v.At = s.time()
		if s.next(`,"result":`) {
			v.Result = s.raw()
		}
	case string(ItemFailed):
		v.Type = ItemFailed
		s.want(`,"until":`)
		v.Until = s.time()
		v.Error = s.field(`,"error":`)
	case string(ItemDead):
		v.Type = ItemDead
		s.want(`,"at":`)
		v.At = s.time()
		v.Reason = s.field(`,"reason":`)
	default:
		s.fail()
	}
	s.want("}")
	return v
}
