"""The ledger on disk: durable before each step, whole at every moment, and never rolled back."""

import errno
import fcntl
import itertools
import os
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lipdp
from lipdp.errors import InvalidData, UnsafeSetting
from lipdp.privacy import PrivacyLedger
from lipdp.training.ledger_file import LedgerFile

BUDGET = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)


def ledger(steps, adjacency="add-remove"):
    made = PrivacyLedger(adjacency)
    made.begin_session("one")
    made.record(0.25, 1.0, steps, overflow_probability=1e-9)
    return made


class Disk:
    """What a machine that dies finds again: synced contents under synced names."""

    def __init__(self, monkeypatch, root):
        self.root = root
        self.contents, self.names = {}, {}
        self.moments = []
        sync, replace = os.fsync, Path.replace

        def syncing(opened):
            sync(opened)
            self._synced(Path(os.readlink(f"/proc/self/fd/{opened}")))

        def replacing(path, target):
            moved = replace(path, target)
            self.moments.append(self.survivor(target))
            return moved

        monkeypatch.setattr(os, "fsync", syncing)
        monkeypatch.setattr(Path, "replace", replacing)

    def _synced(self, path):
        if path.is_file():
            self.contents[path.stat().st_ino] = path.read_text()
        else:
            self.names[path] = {one.name: one.stat().st_ino for one in path.iterdir()}
        self.moments.append(self.survivor(self.root / "runs" / "new" / "ledger.json"))

    def survivor(self, path):
        for folder in itertools.takewhile(lambda one: one != self.root, path.parents):
            if folder.name not in self.names.get(folder.parent, {}):
                return None
        return self.contents.get(self.names.get(path.parent, {}).get(path.name))


class TestWriting:
    def test_each_write_survives_the_death_of_the_machine(self, monkeypatch, tmp_path):
        path = tmp_path / "runs" / "new" / "ledger.json"
        disk, file = Disk(monkeypatch, tmp_path), LedgerFile(path)
        texts = [None]
        for steps in (1, 2, 3):
            disk.moments.clear()
            file.write(ledger(steps))
            texts.append(ledger(steps).to_json())
            assert disk.survivor(path) == texts[-1]
            assert set(disk.moments) <= set(texts[-2:])

    @pytest.mark.parametrize("name", ["ledger.json", "ledger.tmp", "ledger", ".ledger"])
    def test_a_write_that_fails_leaves_the_last_one(self, monkeypatch, tmp_path, name):
        file = LedgerFile(tmp_path / name)
        file.write(ledger(1))

        def full(opened):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            file.write(ledger(2))
        assert file.read().steps == 1

    def test_a_lock_that_was_removed_while_waiting_is_no_lock(self, monkeypatch, tmp_path):
        """Another process ends its training, and removes its files, while this one waits."""
        file, lock, waits = LedgerFile(tmp_path / "l.json"), tmp_path / "l.json.lock", []
        flock = fcntl.flock

        def removed_meanwhile(opened, kind):
            if kind & fcntl.LOCK_EX:
                waits.append(kind)
                if len(waits) == 1:
                    lock.unlink()
            flock(opened, kind)

        def written(ledger):
            with lock.open("a") as other, pytest.raises(BlockingIOError):
                flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return text(ledger)

        text = PrivacyLedger.to_json
        monkeypatch.setattr(fcntl, "flock", removed_meanwhile)
        monkeypatch.setattr(PrivacyLedger, "to_json", written)
        file.write(PrivacyLedger())
        assert len(waits) == 2 and file.read() is not None
        file.remove()
        assert list(tmp_path.iterdir()) == []

    def test_a_lock_file_is_removed_while_nobody_else_can_lock_it(self, monkeypatch, tmp_path):
        file, unlink, removed = LedgerFile(tmp_path / "l.json"), os.unlink, []

        def locked(path):
            with (tmp_path / "l.json.lock").open() as other, pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            removed.append(Path(path).name)
            unlink(path)

        file.write(ledger(3))
        monkeypatch.setattr(os, "unlink", locked)
        file.remove()
        assert removed == ["l.json", "l.json.lock"] and list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
    def test_a_file_system_without_locks_keeps_a_ledger(self, monkeypatch, tmp_path, number):
        def none(opened, kind):
            raise OSError(number, "No locks available")

        monkeypatch.setattr(fcntl, "flock", none)
        file = LedgerFile(tmp_path / "l.json")
        file.write(ledger(3))
        assert file.read().steps == 3

    def test_files_of_one_stem_do_not_meet(self, monkeypatch, tmp_path):
        files = [LedgerFile(tmp_path / name) for name in ("run.a", "run.b")]
        inner = Path.replace

        def while_the_other_writes(path, target):
            monkeypatch.setattr(Path, "replace", inner)
            files[1].write(ledger(9))
            return inner(path, target)

        monkeypatch.setattr(Path, "replace", while_the_other_writes)
        files[0].write(ledger(3))
        assert [file.read().steps for file in files] == [3, 9]

    def test_what_a_dead_write_left_is_overwritten(self, tmp_path):
        (tmp_path / "ledger.json.tmp").write_text(ledger(500).to_json() * 2)
        file = LedgerFile(tmp_path / "ledger.json")
        assert file.read() is None
        file.write(ledger(1))
        assert file.read().steps == 1


class TestDamage:
    TEXT = ledger(37).to_json().encode()

    @settings(max_examples=150)
    @given(data=st.data())
    def test_cut_or_changed_bytes_are_refused_or_harmless(self, data, tmp_path_factory):
        text = bytearray(self.TEXT)
        for _ in range(data.draw(st.integers(1, 3))):
            text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
        cut = data.draw(st.integers(0, len(text)))
        path = tmp_path_factory.mktemp("damaged") / "ledger.json"
        path.write_bytes(text[:cut] if data.draw(st.booleans()) else text)
        try:
            found = LedgerFile(path).read()
        except InvalidData as error:
            assert str(path) in str(error)
        else:
            assert found.to_json() == self.TEXT.decode()

    @pytest.mark.parametrize("edit", [b"", b"null", b"[]", TEXT[:-1], TEXT + b"}", b"\xff\xfe"])
    def test_fit_names_the_file_and_changes_nothing(self, make_model, rows, tmp_path, edit):
        path = tmp_path / "ledger.json"
        path.write_bytes(edit)
        model = make_model(BUDGET)
        model.ledger.record(0.25, 1.0, 5)
        before = model.ledger.to_json(), [w.copy() for w in model.get_weights()]
        with pytest.raises(InvalidData, match=r"ledger\.json"):
            model.fit(*rows, batch_size=50, verbose=0, ledger_file=path)
        assert path.read_bytes() == edit
        assert model.ledger.to_json() == before[0]
        assert all(map(np.array_equal, model.get_weights(), before[1]))

    def test_a_ledger_under_another_adjacency(self, make_model, rows, tmp_path):
        LedgerFile(tmp_path / "ledger.json").write(ledger(3, "replace-one"))
        model = make_model(BUDGET)
        with pytest.raises(InvalidData, match="adjacenc"):
            model.fit(*rows, batch_size=50, verbose=0, ledger_file=tmp_path / "ledger.json")
        assert model.ledger.steps == 0

    def test_a_folder_in_its_place(self, tmp_path):
        with pytest.raises(InvalidData, match="not readable"):
            LedgerFile(tmp_path).read()


class TestFit:
    @pytest.mark.parametrize(("in_file", "in_model"), [(7, 3), (3, 7), (0, 7), (7, 0)])
    def test_the_larger_count_wins(self, make_model, rows, tmp_path, in_file, in_model):
        path = tmp_path / "ledger.json"
        model = make_model(BUDGET)
        if in_file:
            LedgerFile(path).write(ledger(in_file))
        if in_model:
            model.ledger.merge(ledger(in_model))
        model.fit(*rows, batch_size=50, verbose=0, ledger_file=path)
        assert model.ledger.steps == max(in_file, in_model) + 4
        assert LedgerFile(path).read().to_json() == model.ledger.to_json()

    def test_a_step_that_cannot_be_written_does_not_run(
        self, make_model, rows, tmp_path, monkeypatch
    ):
        model = make_model(BUDGET)
        weights = []

        class Full(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                weights.append(self.model.get_weights())
                if batch == 1:
                    monkeypatch.setattr(os, "fsync", full)

        def full(opened):
            raise OSError(errno.ENOSPC, "No space left on device")

        with pytest.raises(OSError, match="No space"):
            model.fit(
                *rows, batch_size=50, verbose=0, ledger_file=tmp_path / "l", callbacks=[Full()]
            )
        assert len(weights) == 2
        assert all(map(np.array_equal, model.get_weights(), weights[-1]))
        assert LedgerFile(tmp_path / "l").read().steps == 2

    def test_the_file_is_ahead_of_every_result(self, make_model, rows, tmp_path):
        seen = []

        class Read(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                seen.append(LedgerFile(tmp_path / "l").read().steps)

        model = make_model(BUDGET)
        model.fit(
            *rows,
            batch_size=50,
            epochs=2,
            verbose=0,
            ledger_file=tmp_path / "l",
            callbacks=[Read()],
        )
        assert seen == list(range(1, 9))


class TestBackup:
    def backup(self, path, **options):
        return keras.callbacks.BackupAndRestore(path / "backup", **options)

    def stopped(self, model, rows, callbacks, **options):
        class Stop(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                if self.model.ledger.steps == 6:
                    raise RuntimeError("stopped")

        with pytest.raises(RuntimeError, match="stopped"):
            model.fit(
                *rows, batch_size=50, epochs=3, verbose=0, callbacks=[*callbacks, Stop()], **options
            )

    @pytest.mark.slow
    @pytest.mark.parametrize("deleted", ["nothing", "weights", "folder"])
    def test_the_count_outlives_the_backup(self, make_model, rows, tmp_path, deleted):
        self.stopped(make_model(BUDGET), rows, [self.backup(tmp_path)])
        if deleted == "weights":
            (tmp_path / "backup" / "latest.weights.h5").unlink()
        if deleted == "folder":
            shutil.rmtree(tmp_path / "backup")
        model = make_model(BUDGET)
        model.fit(*rows, batch_size=50, epochs=3, verbose=0, callbacks=[self.backup(tmp_path)])
        # Six ran; then the two epochs after the backup, or all three.
        assert model.ledger.steps == 6 + (12 if deleted == "folder" else 8)
        assert list(tmp_path.iterdir()) == []

    def test_a_backup_that_stays_keeps_its_ledger(self, make_model, rows, tmp_path):
        model = make_model(BUDGET)
        keep = self.backup(tmp_path, delete_checkpoint=False)
        model.fit(*rows, batch_size=50, verbose=0, callbacks=[keep])
        kept = LedgerFile(tmp_path / "backup.privacy_ledger.json").read()
        assert kept.to_json() == model.ledger.to_json()

    @pytest.mark.parametrize("damage", ["metadata", "weights"])
    def test_a_backup_that_was_cut_is_named(self, make_model, rows, tmp_path, damage):
        self.stopped(make_model(BUDGET), rows, [self.backup(tmp_path)])
        name = {"metadata": "training_metadata.json", "weights": "latest.weights.h5"}[damage]
        path = tmp_path / "backup" / name
        path.write_bytes(path.read_bytes()[:5])
        with pytest.raises((OSError, InvalidData), match=rf"(?s)cut.*{name}|{name}.*cut"):
            make_model(BUDGET).fit(*rows, verbose=0, callbacks=[self.backup(tmp_path)])

    def refused(self, model, rows, folder, words, callbacks=None, **options):
        """Refused before anything is recorded or written; the message names the way out."""
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        with pytest.raises((InvalidData, UnsafeSetting), match=words) as error:
            model.fit(
                *rows,
                batch_size=50,
                epochs=3,
                verbose=0,
                callbacks=callbacks or [self.backup(folder)],
                **options,
            )
        assert model.ledger.steps == 0
        after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        assert after == before
        return str(error.value)

    @pytest.mark.parametrize("given", [False, pytest.param(True, marks=pytest.mark.slow)])
    def test_a_missing_ledger_is_refused(self, make_model, rows, tmp_path, given):
        path = tmp_path / ("own.json" if given else "backup.privacy_ledger.json")
        options = {"ledger_file": path} if given else {}
        self.stopped(make_model(BUDGET), rows, [self.backup(tmp_path)], **options)
        path.unlink()
        said = self.refused(make_model(BUDGET), rows, tmp_path, "ledger file is missing", **options)
        assert str(path) in said and "declare_lost_run" in said
        # The way out: new weights, whose statement says it for good.
        shutil.rmtree(tmp_path / "backup")
        model = make_model(BUDGET)
        model.declare_lost_run()
        self.stopped(model, rows, [self.backup(tmp_path)], **options)
        model = make_model(BUDGET)
        model.fit(
            *rows, batch_size=50, epochs=3, verbose=0, callbacks=[self.backup(tmp_path)], **options
        )
        assert "its ledger was lost" in " ".join(model.privacy_statement().split())

    @pytest.mark.parametrize("left", [["latest.weights.h5"], ["training_metadata.json"]])
    def test_any_file_of_a_backup_needs_its_ledger(self, make_model, rows, tmp_path, left):
        self.stopped(make_model(BUDGET), rows, [self.backup(tmp_path)])
        (tmp_path / "backup.privacy_ledger.json").unlink()
        for path in (tmp_path / "backup").iterdir():
            if path.name not in left:
                path.unlink()
        self.refused(make_model(BUDGET), rows, tmp_path, "is missing")

    def test_an_older_copy_of_the_ledger_is_refused(self, make_model, rows, tmp_path):
        path, copies = tmp_path / "backup.privacy_ledger.json", []

        class Copy(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                copies.append(path.read_text())

        self.stopped(make_model(BUDGET), rows, [self.backup(tmp_path), Copy()])
        # The backup holds four of six steps.
        for text in (copies[0], copies[2], PrivacyLedger().to_json(), ledger(100).to_json()):
            path.write_text(text)
            self.refused(make_model(BUDGET), rows, tmp_path, "holds less than the backup")
        path.write_text(copies[5])
        model = make_model(BUDGET)
        model.fit(*rows, batch_size=50, epochs=3, verbose=0, callbacks=[self.backup(tmp_path)])
        assert model.ledger.steps == 6 + 8

    def test_a_second_ledger_for_one_backup_is_refused(self, make_model, rows, tmp_path):
        self.stopped(make_model(BUDGET), rows, [self.backup(tmp_path)])
        beside, other = tmp_path / "backup.privacy_ledger.json", tmp_path / "other.json"
        self.refused(make_model(BUDGET), rows, tmp_path, "beside", ledger_file=other)
        # The same file by its name, or moved, is the same ledger.
        beside.rename(other)
        model = make_model(BUDGET)
        keep = self.backup(tmp_path)
        model.fit(*rows, batch_size=50, epochs=3, verbose=0, callbacks=[keep], ledger_file=other)
        assert model.ledger.steps == 6 + 8

    def test_a_backup_of_a_remote_address_needs_its_ledger(self, make_model, rows, tmp_path):
        path = tmp_path / "own.json"

        def backup():
            return keras.callbacks.BackupAndRestore(f"file://{tmp_path / 'remote'}")

        self.stopped(make_model(BUDGET), rows, [backup()], ledger_file=path)
        kept = path.read_text()
        for text in (None, ledger(3).to_json()):
            path.unlink() if text is None else path.write_text(text)
            model = make_model(BUDGET)
            with pytest.raises(InvalidData, match="does not hold"):
                model.fit(
                    *rows,
                    batch_size=50,
                    epochs=3,
                    verbose=0,
                    callbacks=[backup()],
                    ledger_file=path,
                )
            assert path.exists() == (text is not None)
        path.write_text(kept)
        model = make_model(BUDGET)
        model.fit(*rows, batch_size=50, epochs=3, verbose=0, callbacks=[backup()], ledger_file=path)
        assert model.ledger.steps == 6 + 8

    def test_a_remote_backup_needs_a_file(self, make_model, rows):
        backup = keras.callbacks.BackupAndRestore("gs://bucket/backup")
        with pytest.raises(UnsafeSetting, match="ledger_file"):
            make_model(BUDGET).fit(*rows, verbose=0, callbacks=[backup])
