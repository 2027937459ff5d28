"""A stage that stopped at its memory limit goes on in a new process; any other failure stays one."""

import pytest

from wordlelib import recipes, restart, runs

STAGES = {name: {"overwrite": True} for name in ("01_data_synthesis", "02_sft", "03_grpo")}


@pytest.fixture
def executed(tmp_path, monkeypatch):
    """Stages that were executed, by name and parameters; `failing`: errors that 02_sft still raises."""
    calls, failing = [], []

    def execute_all(stages, out, after):
        for name, values in stages.items():
            calls.append((name, values))
            (out / name).mkdir(exist_ok=True)
            if name == "02_sft" and failing:
                reason = failing.pop(0)
                runs.write_json(out / name / "status.json", {"status": "failed", "error": reason})
                raise recipes.StageFailed(f"notebook {name} stopped in In [5]: {reason}")
            runs.write_json(out / name / "status.json", {"status": "done"})

    monkeypatch.setattr(recipes, "execute_all", execute_all)
    return calls, failing


def test_a_stage_over_its_memory_limit_is_executed_again_with_resume(executed, tmp_path, capsys):
    calls, failing = executed
    failing += ["MemoryLimit: this process takes 3 GB", "MemoryLimit: this process takes 4 GB"]
    restart.execute_all(STAGES, tmp_path)
    resumed = {"overwrite": False, "resume": True}
    assert calls == [
        ("01_data_synthesis", STAGES["01_data_synthesis"]),
        ("02_sft", STAGES["02_sft"]),
        ("02_sft", resumed),
        ("02_sft", resumed),
        ("03_grpo", STAGES["03_grpo"]),
    ]
    assert capsys.readouterr().out.count("02_sft: goes on in a new process") == 2


def test_any_other_failure_is_raised(executed, tmp_path):
    executed[1].append("MemoryError: one step of training takes 3 GB")
    with pytest.raises(recipes.StageFailed, match="one step of training"):
        restart.execute_all(STAGES, tmp_path)
    assert [name for name, _ in executed[0]] == ["01_data_synthesis", "02_sft"]
