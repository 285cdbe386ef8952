"""The targets' deploy.toml: every file reads, every script parses, every hint answers its recorded output."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies

from tests.cli.process import torchferry
from tests.deploy.outputs import OUTPUTS, UNEXPLAINED
from tests.warm_python import python
from torchferry.backends import registry
from torchferry.backends.datafile import VENDORS, DataOwner
from torchferry.backends.deployment import Deployment, deployment
from torchferry.core.errors import UsageError
from torchferry.deploy.bundle import read_bundle, write_bundle
from torchferry.deploy.containers import TrainingJob, compose, dockerfile, kubernetes
from torchferry.deploy.plan import DeployPlan, StepChoice, facts_of, make_plan, settled
from torchferry.deploy.playbook import write_project
from torchferry.deploy.report import plan_lines
from torchferry.deploy.script import ScriptSettings
from torchferry.deploy.yaml_text import Unsafe, yaml_text

TARGETS = [name for name in registry.names() if (VENDORS / name / "deploy.toml").is_file()]
GIVEN = {"image": "example/image:1"}


def full_bundle(facts: Deployment, target: str, folder: Path) -> Path:
    """Make a bundle with every file that a target knows."""
    sources: dict[str, Path] = {}
    for file in facts.files:
        path = folder / f"of-{file.name}"
        if file.is_folder:
            path.mkdir(parents=True)
            (path / "one").write_text("1", encoding="utf-8")
        else:
            path.write_text("#!/bin/sh\n", encoding="utf-8")
        sources[file.name] = path
    write_bundle(folder / "bundle", target, sources, GIVEN)
    return folder / "bundle"


MANUALS = {
    # T20 deployment manual, stages 1 to 5
    "ptex": (
        {},
        '"$INSTALLER" --uninstall',
        '"$INSTALLER" -y $INSTALLER_ARGS',
        "INSTALLER_ARGS=''",  # no --peermem
        "lsmod | grep '^enflame'",
        '"$ENGINE" load -i "$IMAGE_TAR"',
        '"$ENGINE" run -dit --name "$CONTAINER"',
        "CONTAINER=t20_training_env_py38",
        "--privileged --ipc=host --network=host",
        "libelf1 git git-lfs vim",
        '"$INSTALLER" -y\n',
        '"$INSTALLER" -y -C torch-gcu',
        "-name 'ptex*.whl'",
        'hasattr(torch, "gcu")',
        "ptex.device_count()",
        "sd_models/stable-diffusion-xl-base-1.0",
        "tokenizer_2",
        "'tokenizers>=0.11.1,<0.14'",
        "protobuf==3.20.3",
        "huggingface-hub==0.15.1",
        "--no-deps torchvision==0.11.1",
        "sdxl_minimal_inference",
    ),
    # torch_musa developer manual, chapters 4 and 11
    "musa": (
        {"build_from_source": "yes", "build_args": "--torch --musa --fp64"},
        "--env=MTHREADS_VISIBLE_DEVICES=all",
        "--shm-size=80g",
        './docker setup "$PWD"',
        "groupadd -o -g 109 render",
        "PYTORCH_REPO_PATH=",
        "MUSA_HOME=",
        "bash build.sh $BUILD_ARGS",
        "BUILD_ARGS='--torch --musa --fp64'",
    ),
    # HiDream-E1 migration guide, chapter 1
    "npu": ({}, "npu-smi info", "torch.npu.is_available()", "install the CANN toolkit", "install the operator package"),
}
"""What the documents have a person type or look for, by target, behind the settings of the plan."""


def full_plan(target: str, folder: Path) -> DeployPlan:
    return make_plan(target, read_bundle(full_bundle(facts_of(target), target, folder)), {})


def test_every_vendor_has_one() -> None:
    assert registry.built_in() == TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_scripts_parse_and_the_playbook_is_one(target: str, tmp_path: Path) -> None:
    plan = full_plan(target, tmp_path)
    assert [left.step.id for left in plan.left_out] in (["plugin-version"], ["build-torch", "plugin-version"])
    project = tmp_path / "project"
    project.mkdir()
    play = write_project(plan, project, "run")
    scripts = sorted((project / "scripts").glob("*.sh"))
    assert len(scripts) == len(plan.planned) + 2
    for script in scripts:
        done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{script.name}: {done.stderr}"
    for planned in plan.planned:
        for text in (planned.step.check, planned.step.run, planned.step.undo):
            done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{planned.step.id}: {done.stderr}"
            assert "apt-get update" not in text
    program = shutil.which("ansible-playbook")
    if program is None:
        pytest.skip("ansible-playbook is not installed")
    done = subprocess.run(
        [program, "--syntax-check", "-i", "localhost,", play], capture_output=True, text=True, check=False, cwd=project
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("target", TARGETS)
def test_a_plan_shows_every_command(target: str, tmp_path: Path) -> None:
    plan = full_plan(target, tmp_path)
    for lang in ("en", "zh"):
        text = "\n".join(plan_lines(plan, lang))
        for planned in plan.planned:
            assert planned.step.title.render(lang) in text
            for script in (planned.step.check, planned.step.run):
                assert all(line in text for line in script.splitlines())


@pytest.mark.parametrize("target", MANUALS)
def test_what_the_manuals_have_people_type_is_in_the_plan(target: str, tmp_path: Path) -> None:
    given, *commands = MANUALS[target]
    assert isinstance(given, dict)
    plan = make_plan(target, read_bundle(full_bundle(facts_of(target), target, tmp_path)), given)
    text = "\n".join(plan_lines(plan, "en"))
    assert [command for command in commands if str(command) not in text] == []


PARTS_OF_A_BUILD = ("lib/libmurand.so", "lib/libmusparse.so", "include/thrust", "include/cub", "include/mutlass")


@pytest.mark.parametrize("lacking", PARTS_OF_A_BUILD)
def test_a_build_says_what_it_needs_before_it_begins(lacking: str, tmp_path: Path) -> None:
    for part in PARTS_OF_A_BUILD:
        if part != lacking:
            (tmp_path / part).mkdir(parents=True)
    (build,) = [step for step in facts_of("musa").steps if step.id == "build-torch"]
    done = subprocess.run(
        ["bash", "-c", build.run], capture_output=True, text=True, check=False, env={"MUSA_HOME": str(tmp_path)}
    )
    assert (done.returncode, done.stdout) == (1, f"the build needs, and the SDK lacks: {tmp_path / lacking}\n")


LSMOD = 'test ! -e "$D/loaded" || echo "enflame 16384 0"'
INSTALLER = 'case "$*" in --uninstall) rm -f "$D/loaded" ;; -y) touch "$D/loaded" ;; esac'
SAMPLE = "mkdir sample; echo '{}' > sample/sdxl_minimal_inference.sh"
PARTS_OF_THE_MODEL = "mkdir -p model/tokenizer model/tokenizer_2; echo 1 > model/sd_xl_base_1.0_0.9vae.safetensors"
WHEEL = "toolkit/pytorch-gcu/ptex-2.1.0+torch1.11.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("step", "before", "programs", "calls", "code", "after"),
    [
        (
            *("driver", "touch loaded", {"lsmod": LSMOD, "installer": INSTALLER}),
            *(
                ["lsmod", "installer --uninstall", "installer -y", "lsmod"],
                0,
                'test "$(cat state/driver.installed)" = 1',
            ),
        ),
        (
            *("driver", "", {"lsmod": LSMOD, "installer": INSTALLER}),
            *(["lsmod", "installer -y", "lsmod"], 0, "test -e loaded"),
        ),
        (
            *("driver", "REPLACE_DRIVER=yes", {"lsmod": LSMOD, "installer": INSTALLER}),
            *(["installer --uninstall", "installer -y", "lsmod"], 0, "test -e loaded"),
        ),
        (
            *("driver", "touch loaded", {"lsmod": LSMOD, "installer": "exit 4"}),
            *(["lsmod", "installer --uninstall"], 1, "test -e loaded -a ! -e state/driver.installed"),
        ),
        (
            *("driver", "", {"lsmod": LSMOD, "installer": "exit 0"}),
            *(["lsmod", "installer -y", "lsmod"], 1, "test ! -e state/driver.installed"),
        ),
        (
            *("packages", "mkdir debs; touch debs/libelf1.deb debs/vim.deb", {"apt-get": ""}),
            [
                "apt-get -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=/dev/null install -y"
                " --no-install-recommends DIR/debs/libelf1.deb DIR/debs/vim.deb"
            ],
            *(0, "true"),
        ),
        ("base", "", {"installer": ""}, ["installer -y"], 0, "true"),
        ("framework", "", {"installer": ""}, ["installer -y -C torch-gcu"], 0, "true"),
        (
            *("plugin", f"mkdir -p toolkit/pytorch-gcu; touch {WHEEL}", {"pip3": ""}),
            *([f"pip3 install --no-index --no-deps DIR/{WHEEL}"], 0, "true"),
        ),
        ("plugin", "mkdir toolkit", {"pip3": ""}, [], 1, "true"),
        (
            *("model", PARTS_OF_THE_MODEL, {}, [], 0),
            "test -d sample/sd_models/stable-diffusion-xl-base-1.0/tokenizer_2",
        ),
        (
            "sample-script",
            "mkdir sample; echo mine > script.py",
            {},
            [],
            0,
            "cmp script.py sample/sdxl_minimal_inference.py",
        ),
        (
            *("pins", "", {"pip3": ""}),
            [
                "pip3 install --no-index --find-links DIR/wheels tokenizers>=0.11.1,<0.14 protobuf==3.20.3"
                " huggingface-hub==0.15.1",
                "pip3 install --no-index --find-links DIR/wheels --no-deps torchvision==0.11.1",
            ],
            *(0, "true"),
        ),
        (
            *("framework-repair", "", {"pip3": "", "installer": ""}),
            *(["pip3 uninstall -y torch", "installer -y -C torch-gcu"], 0, "true"),
        ),
        ("sample", SAMPLE.format('printf "0/50 [\\r10/50 ["'), {}, [], 0, 'test "$(cat state/sample.passed)" = 1'),
        ("sample", SAMPLE.format('printf "0/50 ["'), {}, [], 1, "test ! -e state/sample.passed"),
        ("sample", SAMPLE.format('printf "10/50 ["; exit 3'), {}, [], 3, "test ! -e state/sample.passed"),
    ],
)
def test_a_step_of_the_t20_starts_these_programs(
    step: str, before: str, programs: dict[str, str], calls: list[str], code: int, after: str, tmp_path: Path
) -> None:
    """Stand-ins note how they are called; the step and what it leaves are real."""
    for folder in ("bin", "state", "wheels"):
        (tmp_path / folder).mkdir()
    for name, text in programs.items():
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\necho "{name}${{*:+ $*}}" >> "$D/calls"\n{text}\n', encoding="utf-8")
        program.chmod(0o755)
    variables = {"INSTALLER_SHA256": "1", "INSTALLER_ARGS": "", "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    places = {"D": "", "INSTALLER": "bin/installer", "SAMPLE_SCRIPT": "script.py"}
    places |= {name.upper(): name for name in ("state", "debs", "wheels", "toolkit", "model", "sample")}
    variables |= {name: str(tmp_path / place) for name, place in places.items()}
    (planned,) = [each for each in facts_of("ptex").steps if each.id == step]
    script = f'{{ {before or ":"}; }} && ({planned.run}\n)\ncode=$?; {after} || exit 99; exit "$code"'
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path, env=variables
    )
    made = tmp_path / "calls"
    called = made.read_text(encoding="utf-8").replace(str(tmp_path), "DIR").splitlines() if made.exists() else []
    assert (called, done.returncode) == (calls, code), done.stdout + done.stderr


@pytest.mark.rehearsal
@pytest.mark.parametrize("target", TARGETS)
def test_what_verifies_a_container_is_true_of_a_rehearsed_card(target: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    wrapper = tmp_path / "python3"  # the one that has torch ready takes no program from its input
    wrapper.write_text(
        f'#!/bin/bash\n[ "$1" != - ] || set -- -c "$(cat)" "${{@:2}}"\nexec {python()} "$@"\n', encoding="utf-8"
    )
    wrapper.chmod(0o755)
    checks = [step for step in facts_of(target).steps if step.stage == "verify" and step.id != "plugin-version"]
    text = "set -e\n" + "\n".join(f"({step.check}\n)\necho {step.id} is well" for step in checks)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = torchferry("rehearse", "-t", target, "--", "bash", "-c", text, env={"PATH": path, "PYTHON": str(wrapper)})
    assert [step.id for step in checks if f"{step.id} is well" not in done.stdout] == [], done.stdout + done.stderr
    assert "card-computes is well" in done.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_what_cannot_be_taken_back_is_said(target: str) -> None:
    for step in facts_of(target).steps:
        if step.run and not step.in_container:
            assert bool(step.undo) != bool(step.undo_note.en), step.id
            assert step.undo or step.undo_note.zh


@pytest.mark.parametrize("target", TARGETS)
def test_texts_are_there_in_both_languages(target: str) -> None:
    facts = facts_of(target)
    texts = [facts.product, *(step.title for step in facts.steps)]
    texts += [value.about for value in facts.values]
    texts += [file.about for file in facts.files]
    assert [text.en for text in texts if not text.en or not text.zh] == []


@pytest.mark.parametrize(("target", "step", "output", "cause", "remedy"), OUTPUTS)
def test_a_recorded_output_is_explained(target: str, step: str, output: str, cause: str, remedy: str) -> None:
    explanation = facts_of(target).explained(step, output)
    assert explanation is not None
    assert cause in explanation.causes[0].en
    assert remedy in explanation.advice.en
    assert explanation.causes[0].zh
    assert explanation.advice.zh


@pytest.mark.parametrize(("target", "step", "output"), UNEXPLAINED)
def test_what_no_entry_knows_stays_unexplained(target: str, step: str, output: str) -> None:
    assert facts_of(target).explained(step, output) is None


def test_every_entry_for_a_step_answers_a_recorded_output() -> None:
    """No entry is there that nobody has seen answer, or that an earlier one hides, or whose step is gone."""
    answers = [facts_of(target).explained(step, output) for target, step, output, _, _ in OUTPUTS]
    answered = {answer.entry.key for answer in answers if answer is not None}
    entries = {entry.key: entry for target in TARGETS for entry in facts_of(target).errors if "deploy" in entry.where}
    seen_elsewhere = {key for key, entry in entries.items() if "machine" in entry.where}
    assert sorted(entries.keys() - answered - seen_elsewhere) == []
    steps = {step.id for target in TARGETS for step in facts_of(target).steps}
    assert {step for entry in entries.values() for step in entry.steps} <= steps


def test_what_is_not_public_is_asked_for_by_its_name() -> None:
    with pytest.raises(UsageError, match="has not published these settings: image"):
        settled(facts_of("npu"), {})
    with pytest.raises(UsageError, match="unknown setting `imag`"):
        settled(facts_of("npu"), {"imag": "x"})


@pytest.mark.parametrize(
    ("name", "text"),
    [("image", "x; rm -rf /"), ("container", "$(id)"), ("container", "-v"), ("engine", "sh"), ("disk_mb", "1\n2")],
)
def test_a_setting_is_no_command(name: str, text: str) -> None:
    with pytest.raises(UsageError, match="is not allowed for"):
        settled(facts_of("ptex"), {name: text})


AWKWARD = (
    "a\x85b",
    "\x9b31m",
    "\x7f",
    "\u2028",
    "\u202e",
    "\U0001f600",
    "{{ x }}",
    "!unsafe x",
    "a: b # c",
    "",
    "\ufeff",
)


@given(strategies.sampled_from(AWKWARD) | strategies.text(strategies.characters(exclude_categories=["Cs"])))
def test_a_text_is_read_back_as_it_was(text: str) -> None:
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(f"[{yaml_text([text])}, {yaml_text({'1': True})}]") == [[text], {"1": True}]
    job = TrainingJob("train", ("bash", "-c", text), 1, 1, "example.com/card")
    _, batch = yaml.safe_load_all(kubernetes(facts_of("ptex"), settled(facts_of("ptex"), GIVEN), job))
    assert batch["spec"]["template"]["spec"]["containers"][0]["command"] == ["bash", "-c", text]
    assert yaml_text(Unsafe(text)) == f"!unsafe {yaml_text(text)}"


def test_what_is_not_utf8_is_refused_before_anything_is_written() -> None:
    with pytest.raises(UsageError, match=r"`a\\udcff` is not UTF-8"):
        yaml_text("a\udcff")


def test_settings_reach_bash_as_they_are(tmp_path: Path) -> None:
    """Quotes, dollars, backslashes and line ends stay text; nothing of them is run."""
    values = {
        "A": "'; touch ran; '",
        "B": '$(touch ran) `touch ran` "x" \\',
        "C": "two\nlines",
        "D": "-n",
        "E": "\x9b31m\u202e",
    }
    settings = ScriptSettings(values, {"LIST": [*values.values(), "*"]})
    script = f'{settings.text()}\nprintf \'%s\\0\' "$A" "$B" "$C" "$D" "$E" "${{LIST[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, cwd=tmp_path, check=True)
    assert done.stdout.decode("utf-8").split("\0")[:-1] == [*values.values(), *values.values(), "*"]
    assert list(tmp_path.iterdir()) == []


def test_stages_and_steps_are_chosen(tmp_path: Path) -> None:
    bundle = read_bundle(full_bundle(facts_of("ptex"), "ptex", tmp_path))
    plan = make_plan("ptex", bundle, {}, StepChoice(from_stage="repair"))
    ids = [planned.step.id for planned in plan.planned if planned.step.stage != "precheck"]
    assert ids == [
        *("copy-wheels", "pins", "copy-installer", "framework-repair", "framework-answers", "cards-answer"),
        *("card-computes", "copy-model", "sample"),
    ]
    plan = make_plan("ptex", bundle, {}, StepChoice(only=("driver",), timeouts={"driver": 7}))
    assert [planned.step.id for planned in plan.planned][-2:] == ["copy-installer", "driver"]
    assert plan.planned[-1].timeout == 7
    with pytest.raises(UsageError, match="unknown step or stage `drivr`"):
        make_plan("ptex", bundle, {}, StepChoice(only=("drivr",)))


@pytest.mark.parametrize("target", TARGETS)
def test_files_for_containers_and_clusters(target: str) -> None:
    yaml = pytest.importorskip("yaml")
    facts = facts_of(target)
    values = settled(facts, GIVEN)
    assert "FROM example/image:1\n" in dockerfile(facts, values)
    service = yaml.safe_load(compose(facts, values))["services"]["training"]
    assert service.get("shm_size", "") == facts.container.shm_size
    assert service.get("privileged", False) == facts.container.privileged
    assert "*" not in json.dumps(service.get("devices", []))
    job = TrainingJob("train", ("bash", "-c", "a: b # c"), 2, 8, facts.kubernetes.resource or "example.com/card")
    found, batch = yaml.safe_load_all(kubernetes(facts, values, job))
    pod = batch["spec"]["template"]["spec"]
    assert found["spec"]["clusterIP"] == "None"
    assert batch["spec"]["completions"] == batch["spec"]["parallelism"] == 2
    assert pod["subdomain"] == found["metadata"]["name"]
    container = pod["containers"][0]
    assert container["resources"]["limits"] == {job.resource: "8"}
    assert container["command"] == ["bash", "-c", "a: b # c"]
    names = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == names
    assert all(isinstance(variable.get("value", ""), str) for variable in container["env"])


def manifests(target: str, nodes: int = 2) -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    facts = facts_of(target)
    job = TrainingJob("train", ("bash", "train.sh"), nodes, 8, facts.kubernetes.resource or "example.com/card")
    return list(yaml.safe_load_all(kubernetes(facts, settled(facts, GIVEN), job)))


@pytest.mark.parametrize("target", TARGETS)
def test_manifests_hold_to_the_schemas_of_kubernetes(target: str) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for version in ("1.25", validator.latest_version()):
        for manifest in manifests(target):
            validator.validate(manifest, version, strict=True)
    batch = manifests(target)[1]
    batch["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
    with pytest.raises(validator.ValidationError):
        validator.validate(batch, "1.25", strict=True)


def test_a_resource_that_is_not_public_is_asked_for() -> None:
    facts = facts_of("sdaa")
    with pytest.raises(UsageError, match="has not published the resource name"):
        kubernetes(facts, settled(facts, GIVEN), TrainingJob("train", ("true",)))


def written(folder: Path, text: str) -> type[DataOwner]:
    """Return the owner of a folder whose deploy.toml is a small right one and `text`."""
    head = '[sources]\nS = "s"\n[deployment]\nproduct = "p"\nsource = "S"\n'
    (folder / "deploy.toml").write_text(head + text, encoding="utf-8")
    return type("Other", (DataOwner,), {"NAME": "other", "DATA_DIRECTORY": folder})


def test_a_target_without_the_file_says_so(tmp_path: Path) -> None:
    other = written(tmp_path, "")
    assert deployment(other) is not None
    (tmp_path / "deploy.toml").unlink()
    assert deployment(other) is None


STEP = '[[step]]\nid = "a"\nstage = "driver"\ntitle = "t"\ncheck = "true"\nsource = "S"\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (STEP + "reboot = 1\n", "`reboot` is true or false"),
        (STEP + "ok_rc = [2, 256]\n", "`ok_rc` is a list of exit codes"),
        (STEP + "timeout = -1\n", "`timeout` is a whole number"),
        (STEP + "timeout = 86401\n", "a day is the longest"),
        (STEP + "needs = ['x']\n", "no .*file.* x"),
        (STEP + "when = 'x=1'\n", "`when` names no"),
        (STEP + "other = 1\n", "`other` is none of"),
        (STEP.replace("driver", "drivers"), "`stage` is one of"),
        (STEP + STEP, "two steps have one `id`"),
        (STEP + STEP.replace('"a"', '"b"').replace("driver", "precheck"), "comes before driver"),
        (
            '[[value]]\nname = "a"\ndefault = "x"\nchoices = ["y"]\nabout = "b"\nsource = "S"\n',
            "none of what it may be",
        ),
        ('[[value]]\nname = "path"\nabout = "b"\nsource = "S"\n', "no name for a variable"),
        ('[[hint]]\nmatch = "a"\nsource = "S"\n', "`hint` is none of"),
        ("[container]\ndevices = '/dev/x'\nsource = 'S'\n", "`devices` is not a list of texts"),
        ("[container]\nipc = 'host'\nsource = 'T'\n", "source `T` is not in"),
    ],
)
def test_a_wrong_table_is_refused_by_its_name(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=problem):
        deployment(written(tmp_path, text))
