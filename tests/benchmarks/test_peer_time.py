from click.testing import CliRunner

from benchmarks import peer_time, peers


def test_only_the_packages_that_are_named_take_turns(monkeypatch, tmp_path):
    raced = []

    def run_cells(name, make, batches, turns, **options):
        raced.append((name, batches, {one.python for one in make(batches[0]).values()}))

    monkeypatch.setattr(peers, "interpreter", lambda framework, folder: f"python of {framework}")
    monkeypatch.setattr(peer_time, "versions", lambda *_: {})
    monkeypatch.setattr(peer_time, "run_cells", run_cells)
    told = ["--net", "cnn", "--batch", "8192", "--results", str(tmp_path)]
    CliRunner().invoke(peer_time.main, told, catch_exceptions=False)
    assert [name for name, *_ in raced] == [f"step_time_cnn_{name}" for name in peers.FRAMEWORKS]
    raced.clear()
    CliRunner().invoke(peer_time.main, [*told, "--framework", "opacus"], catch_exceptions=False)
    assert raced == [("step_time_cnn_opacus", (8192,), {"python of opacus"})]


def test_a_package_without_environment_is_an_error(monkeypatch, tmp_path):
    def interpreter(framework, folder):
        if framework == "opacus":
            raise RuntimeError("no network")
        return "python"

    monkeypatch.setattr(peers, "interpreter", interpreter)
    told = ["--framework", "opacus", "--results", str(tmp_path)]
    answer = CliRunner().invoke(peer_time.main, told)
    assert answer.exit_code == 1
    assert "no network" in answer.output
    assert "No environment" in answer.output
