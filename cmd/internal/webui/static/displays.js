// Results that later turns update. An update belongs to the turn that showed the result.
const maxKnown = 2000; // results with an id; of the oldest ones, an update is shown in its own turn

export class Displays {
  constructor(session) {
    this.session = session; // a SessionView
    this.drop();
  }

  drop() { this.known = new Map(); } // by id: the row that showed it, and the newest update {e, parts}

  // goesElsewhere reports whether an update belongs to another turn, and shows it there.
  goesElsewhere(view, e, parts) {
    const known = this.known.get(e.id);
    if (!e.update || !known || known.row === view.row) {
      if (e.update && !known) this.remember(e.id, { from: view.row, update: { e, parts } });
      return false;
    }
    if (e.seq > (known.update?.e.seq ?? 0)) known.update = { e, parts };
    if (!known.row) return false; // the turn that showed it has not been read
    const other = this.session.mounted.get(known.row);
    if (known.update.e === e && other?.filled) other.on_display(e, parts);
    return true;
  }

  // newest returns the newest form of a result of a row.
  newest(row, e, parts) {
    const known = this.known.get(e.id);
    if (e.update || known?.row === row) return known?.row === row && known.update?.e.seq > e.seq ? known.update : { e, parts };
    if (known?.row?.first > row.first) return { e, parts }; // a later turn has shown it again
    const update = known?.update?.e.seq > e.seq && !known.row ? known.update : undefined;
    this.remember(e.id, { row, update });
    if (!update) return { e, parts };
    const from = this.session.mounted.get(known.from);
    if (from?.filled) queueMicrotask(() => from.fill(from.row.items)); // the update has left its turn
    return update;
  }

  remember(id, known) {
    this.known.delete(id);
    this.known.set(id, known);
    if (this.known.size > maxKnown) this.known.delete(this.known.keys().next().value);
  }
}
