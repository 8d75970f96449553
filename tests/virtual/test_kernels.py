# SPDX-License-Identifier: Apache-2.0
"""Kernels of virtual time: how they are found, what their source is adjusted by, and what is said where one is not."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from narrows.cli import app
from narrows.errors import InputError, RunError
from narrows.virtual import build, kernels, origin, probing, sources
from narrows.virtual.adjustments import ADJUSTMENTS, LAUNCH, adjust
from narrows.virtual.environment import Guests
from narrows.virtual.kernels import About
from narrows.virtual.origin import Input, Origin
from narrows_formats.file_digest import file_digest
from typer.testing import CliRunner


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def program(path: Path, config: str) -> Path:
    """Something that says which configuration it has, as a kernel does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<END\n{config}\nEND\n")
    path.chmod(0o755)
    return path


def test_without_a_kernel_the_error_says_how_to_build_one() -> None:
    with pytest.raises(InputError, match=r"--kernel default: no such kernel is built; fix: narrows kernel build$"):
        kernels.find("default")


def test_other_kernels_are_named(own_cache: Path) -> None:
    program(own_cache / "narrows" / "kernels" / "mine" / "linux", "CONFIG_UML=y")
    with pytest.raises(
        InputError,
        match=r"built are: mine; fix: .* --name other, with its --source, --patch, --config or --cca$",
    ):
        kernels.find("other")


def test_a_kernel_without_virtual_time_is_refused(tmp_path: Path) -> None:
    path = program(tmp_path / "linux", "CONFIG_UML=y\n# CONFIG_UML_TIME_TRAVEL_SUPPORT is not set")
    with pytest.raises(InputError, match="has no virtual time"):
        kernels.find(str(path))


def test_what_is_no_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a User-Mode Linux kernel"):
        kernels.find(str(program(tmp_path / "linux", "hello")))
    with pytest.raises(InputError, match="is not a program"):
        kernels.find(str(tmp_path / "missing"))


def test_a_kernel_is_removed(own_cache: Path) -> None:
    program(own_cache / "narrows" / "kernels" / "mine" / "linux", f"CONFIG_UML=y\n{kernels.TIME_TRAVEL}")
    assert kernels.find("mine").path.exists()
    kernels.remove("mine")
    assert kernels.installed() == []
    with pytest.raises(InputError, match="kernel mine: is not built; allowed: none"):
        kernels.remove("mine")


def test_the_default_kernel_comes_first(own_cache: Path) -> None:
    for name in ("another", kernels.DEFAULT, "third"):
        program(own_cache / "narrows" / "kernels" / name / "linux", f"CONFIG_UML=y\n{kernels.TIME_TRAVEL}")
    assert [kernel.name for kernel in kernels.installed()] == [kernels.DEFAULT, "another", "third"]


def test_the_list_has_what_a_kernel_is_and_how_it_was_built(own_cache: Path) -> None:
    """Its source and patches are in the command, which is that of the kernel of this name."""
    image = program(own_cache / "narrows" / "kernels" / "mine" / "linux", f"CONFIG_UML=y\n{kernels.TIME_TRAVEL}")
    digest = hashlib.sha256(image.read_bytes()).hexdigest()
    known = About("6.12", digest, "c0ff", ("reno", "bbr"), {"bbr": "3"}, 1, 1, repeatable=True, launches=True)
    kernels.remember(kernels.find("mine"), known)
    command = "narrows kernel build --name mine --source /linux-6.12.tar.xz --patch /a.patch"
    head = f"mine: Linux 6.12; reno, bbr (BBRv3)\n  image: SHA-256 {digest}\n  configuration: SHA-256 c0ff\n"
    unknown = "  source: not recorded, as it was built by an earlier version\n"
    assert CliRunner().invoke(app, ["kernel", "list"]).stdout == f"{head}  built by: not recorded\n{unknown}"
    kernels.remember_build("mine", [("--source", "/linux-6.12.tar.xz"), ("--patch", "/a.patch")])
    assert CliRunner().invoke(app, ["kernel", "list"]).stdout == f"{head}  built by: {command}\n{unknown}"
    built_from = Origin(Input("linux-6.12.tar.xz", "ab"), (Input("a.patch", "cd"),), ("CONFIG_HZ=250",))
    origin.write(image.parent, built_from)
    assert CliRunner().invoke(app, ["kernel", "list"]).stdout == (
        f"{head}  built by: {command}\n  source: linux-6.12.tar.xz, SHA-256 ab\n  patch: a.patch, SHA-256 cd\n"
        "  options: CONFIG_HZ=250\n"
    )
    (listed,) = json.loads(CliRunner().invoke(app, ["kernel", "list", "--json"]).stdout)
    assert listed["about"]["image_sha256"] == digest and listed["built_by"] == command
    assert listed["origin"]["source"] == {"name": "linux-6.12.tar.xz", "sha256": "ab"}
    assert listed["origin"]["patches"] == [{"name": "a.patch", "sha256": "cd"}]


def test_a_kernel_with_a_base_has_all_that_both_are_made_of(own_cache: Path) -> None:
    """The commands build it where nothing is built, even if the base was built anew since then."""
    for name in ("ground", "mine"):
        program(own_cache / "narrows" / "kernels" / name / "linux", f"CONFIG_UML=y\n{kernels.TIME_TRAVEL}")
    ground = Origin(Input("linux.tar.xz", "ab"))
    mine = Origin(base=Input("ground", "12"), base_origin=ground, ccas=(Input("x.c", "ef"),))
    origin.write(kernels.find("mine").path.parent, mine)
    assert origin.recorded(kernels.find("mine")) == mine
    assert origin.lines_of(kernels.find("mine")) == [
        "base: ground, SHA-256 12", "CCA: x.c, SHA-256 ef", "base's source: linux.tar.xz, SHA-256 ab"
    ]  # fmt: skip
    kernels.remember_build("mine", [("--base", "ground"), ("--cca", "/x.c")])
    assert kernels.built_by(kernels.find("mine")) is None
    kernels.remember_build("ground", [("--source", "/linux.tar.xz")])
    assert kernels.built_by(kernels.find("mine")) == (
        "narrows kernel build --name ground --source /linux.tar.xz && "
        "narrows kernel build --name mine --base ground --cca /x.c"
    )


def test_a_source_is_known_by_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "linux.tar").write_text("an archive")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "Makefile").write_text("all:")
    packed = origin.source(tmp_path / "linux.tar", "linux.tar", tmp_path / "tree")
    assert packed == Input("linux.tar", hashlib.sha256(b"an archive").hexdigest())
    before = origin.source(tmp_path / "tree", "tree", tmp_path / "tree")
    (tmp_path / "tree" / "Makefile").write_text("none:")
    assert origin.source(tmp_path / "tree", "tree", tmp_path / "tree") != before


def test_a_build_says_what_it_replaces(own_cache: Path) -> None:
    image = program(own_cache / "narrows" / "kernels" / "mine" / "linux", f"CONFIG_UML=y\n{kernels.TIME_TRAVEL}")
    for name, says in (("mine", True), ("other", False)):
        result = CliRunner().invoke(app, ["kernel", "build", "--name", name, "--source", str(own_cache / "none")])
        assert (f"kernel {name}: replaces the one of this name, once it is built" in result.stdout) is says
        assert isinstance(result.exception, InputError) and image.exists()


@pytest.mark.parametrize(
    ("versions", "names"),
    [
        ({}, ["reno", "bbr (BBRv1)"]),
        ({"bbr": "3"}, ["reno", "bbr (BBRv3)"]),
        ({"cubic": "2.3"}, ["reno", "bbr (BBRv1)"]),
    ],
)
def test_bbr_is_named_by_its_version(versions: dict[str, str], names: list[str]) -> None:
    assert About("6.12", "", "", ("reno", "bbr"), versions, 1, 1).cca_names() == names


def test_both_versions_of_bbr_are_distinguished() -> None:
    both = About("6.12", "", "", ("bbr", "bbr1"), {"bbr": "3"}, 1, 1)
    assert both.cca_names() == ["bbr (BBRv3)", "bbr1 (BBRv1)"]


def test_what_sets_a_kernel_apart_is_said() -> None:
    assert About("7.3", "", "", (), {}, 1, 1, repeatable=True, launches=True).notes("narrows kernel build") == []
    command = "narrows kernel build --name mine --patch /a"
    inexact = About("7.3", "", "", (), {}, 256, 1000, starts_ns=371_000, late_ns=4_000_000, paced_ratio=0.98)
    other = inexact.notes(command)
    assert len(other) == 6
    assert "a hundred flows that begin together begin over 371 us" in other[0]
    assert "timers are up to 4000 us late" in other[1]
    assert "a paced flow carries 98.0000% of its rate" in other[2]
    assert "runs with one seed differ" in other[3]
    assert "reading its clock takes 256 ns" in other[4]
    assert "frames reach its hosts by its queues" in other[5]
    assert [note.partition("; fix: ")[2] for note in (*other[:3], *other[4:])] == [command] * 5


def test_all_algorithms_of_a_source_are_built(tmp_path: Path) -> None:
    kconfig = tmp_path / "net" / "ipv4" / "Kconfig"
    kconfig.parent.mkdir(parents=True)
    kconfig.write_text("menuconfig TCP_CONG_ADVANCED\n\nconfig TCP_CONG_BBR\n\tbool\n\nconfig TCP_CONG_MINE\n\tbool\n")
    assert build.algorithms(tmp_path) == ["CONFIG_TCP_CONG_BBR=y", "CONFIG_TCP_CONG_MINE=y"]


# What adjustments change, as sources from Linux 6.1 to 7.3 write it.
SYSCALL = (
    "#include <asm/delay.h>\n\nvoid handle_syscall(struct uml_pt_regs *r)\n{{\n"
    "\tsyscall = UPT_SYSCALL_NR(r);\n{between}\tif (syscall >= 0 && syscall < __NR_syscalls) {{\n"
    "\t\tunsigned long ret{call};\n\t\t\tum_udelay(1);\n\t\t\tschedule();\n"
)
FILES = {
    "arch/um/Kconfig": "config HZ\n\tint\n\tdefault 100\n\tdefault 2 if 64BIT\n\trange 2 10 if 64BIT\n",
    "arch/um/include/linux/time-internal.h": "#define TIMER_MULTIPLIER 256\n#define TIMER_MIN_DELTA  500\n",
    "arch/um/include/asm/archrandom.h": "{\n\tret = os_getrandom(v, max_longs * sizeof(*v), 0);\n}\n",
    "arch/um/kernel/um_arch.c": "{\n\tif (os_getrandom(rng_seed, sizeof(rng_seed), 0) == sizeof(rng_seed)) {\n\t}\n}\n",
    "drivers/char/random.c": "\t\tblock.rdseed[i++] = random_get_entropy();\n"
    "\t_mix_pool_bytes(init_utsname(), sizeof(*(init_utsname())));\n"
    "\t_mix_pool_bytes(command_line, strlen(command_line));\n"
    "void add_device_randomness(const void *buf, size_t len)\n{\n\tunsigned long entropy;\n}\n"
    "void add_interrupt_randomness(int irq)\n{\n\tunsigned long entropy;\n}\n",
    "net/ipv4/Makefile": "obj-$(CONFIG_TCP_CONG_BIC) += tcp_bic.o\nobj-$(CONFIG_TCP_CONG_CUBIC) += tcp_cubic.o\n",
    "drivers/net/Makefile": "obj-$(CONFIG_TUN) += tun.o\nobj-$(CONFIG_VETH) += veth.o\nobj-y += wireless/\n",
}
TRACED = "(void *) PTRACE_O_TRACESYSGOOD) < 0) {\n"
OLDER = {
    "arch/um/kernel/skas/syscall.c": SYSCALL.format(between="", call=" = EXECUTE_SYSCALL(syscall, regs)"),
    "arch/x86/um/user-offsets.c": "\tDEFINE_LONGS(HOST_FP_SIZE, 2696);\n",
}
VERSIONS = {
    "6.1": FILES | OLDER | {"arch/um/os-Linux/skas/process.c": TRACED + TRACED.replace("*) ", "*)")},
    "6.12": FILES | OLDER | {"arch/um/os-Linux/skas/process.c": TRACED},
    "7.3": FILES
    | {
        "arch/um/kernel/skas/syscall.c": SYSCALL.format(between="\n\t\ttt_extra_sched_jiffies += 1;\n\n", call=""),
        "arch/x86/um/user-offsets.c": "nothing\n",
        "arch/um/os-Linux/skas/process.c": TRACED,
        "include/net/tcp_ecn.h": "static inline void INET_ECN_xmit_ect_1_negotiation(struct sock *sk)\n"
        "\tif (!req->num_timeout || synack_type != TCP_SYNACK_RETRANS) {\n",
        "net/ipv4/tcp_output.c": "\t\t\tINET_ECN_xmit(sk);\n\t\telse\n\t\t\tINET_ECN_dontxmit(sk);\n" * 2,
    },
}


def source(tree: Path, version: str) -> Path:
    for name, text in VERSIONS[version].items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    return tree


def texts(tree: Path) -> dict[str, str]:
    return {str(path.relative_to(tree)): path.read_text() for path in tree.rglob("*") if path.is_file()}


@pytest.mark.parametrize("version", VERSIONS)
def test_sources_are_adjusted(version: str, tmp_path: Path) -> None:
    adjust(source(tmp_path, version))
    after = texts(tmp_path)
    assert "default 250\n" in after["arch/um/Kconfig"]
    assert after["arch/um/include/linux/time-internal.h"].startswith(
        "#define TIMER_MULTIPLIER 1\n#define TIMER_MIN_DELTA"
    )
    # Of what a system call that fails takes, and of those of users' programs.
    calls = after["arch/um/kernel/skas/syscall.c"]
    assert "um_ndelay(in_group_p(KGIDT_INIT(65533)) ? 1000 : 1);" in calls and "um_udelay" not in calls
    assert calls.index("um_ndelay(user_ns);") < calls.index("if (syscall >= 0 &&") < calls.index("unsigned long ret")
    assert "module_param(user_ns, ulong, 0644);" in calls
    # Random numbers are not this machine's.
    for name in ("arch/um/include/asm/archrandom.h", "arch/um/kernel/um_arch.c"):
        assert "os_getrandom" not in after[name] and after[name].count("{") == after[name].count("}")
    assert "obj-$(CONFIG_VETH) += narrows_launch.o\n" in after["drivers/net/Makefile"]
    assert after["drivers/net/narrows_launch.c"] == LAUNCH.read_text()
    traced = after["arch/um/os-Linux/skas/process.c"]
    assert traced.count("(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)) < 0) {") == traced.count("< 0")
    assert ("default 4 if 64BIT" in after["arch/um/Kconfig"]) == (version != "7.3")
    assert ("accecn_ok" in after.get("include/net/tcp_ecn.h", "")) == (version == "7.3")
    sent = after.get("net/ipv4/tcp_output.c", "")
    assert "ECN_xmit(" not in sent
    assert sent.count("xmit_ect_1_negotiation(sk)") == sent.count("ECN_dontxmit(sk)") == (2 if version == "7.3" else 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_adjustment_that_cannot_be_made_fails_the_build(version: str, tmp_path: Path) -> None:
    """Each text of each file, or the file, was moved by a patch, or is otherwise in a version that came later."""
    for which, adjustment in enumerate(ADJUSTMENTS):
        file, mark = adjustment.needed_by or ("arch/um/Kconfig", "")
        for number, edit in enumerate(adjustment.edits):
            if not edit.found or mark not in VERSIONS[version].get(file, "not there"):
                continue
            tree = source(tmp_path / f"{which}-{number}", version)
            (tree / edit.file).write_text((tree / edit.file).read_text().replace(edit.found, f"moved {mark}"))
            before, said = texts(tree), f"so that {adjustment.aim}: {edit.file} does not have"
            with pytest.raises(RunError, match=re.escape(f"this source cannot be adjusted {said}")):
                adjust(tree)
            assert texts(tree) == before
    (source(tmp_path / "gone", version) / "arch/um/kernel/skas/syscall.c").unlink()
    with pytest.raises(RunError, match=r"allowed: a source that has it, as Linux 6\.1, 6\.12, 7\.2 and 7\.3 do"):
        adjust(tmp_path / "gone")


def test_a_kernel_that_measures_itself_is_not_kept(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has the name until then stays."""
    before = program(own_cache / "narrows" / "kernels" / "mine" / "linux", "CONFIG_UML=y")
    made = program(tmp_path / "made" / "linux", f"CONFIG_UML=y\n{kernels.TIME_TRAVEL}")
    monkeypatch.setattr(build, "_make", lambda *_: (made.parent, Input("linux.tar", "ab")))
    monkeypatch.setattr(build, "problems", list)
    inexact = About("6.12", "", "", ("reno",), {}, 1, 1000, starts_ns=371_000)
    monkeypatch.setattr(build, "boot", lambda _kernel: inexact)
    with pytest.raises(RunError, match=r"kernel mine: is not kept, .*: a hundred flows .* begin over 371 us"):
        build.build("mine", None, [], 1, lambda _text: None)
    assert before.exists() and made.exists() and not (before.parent / kernels.DESCRIPTION).exists()
    exact = About("6.12", file_digest(made), "", ("reno",), {}, 1, 1, starts_ns=401, late_ns=5)
    monkeypatch.setattr(build, "boot", lambda _kernel: exact)
    said: list[str] = []
    (tmp_path / "a.patch").write_text("a change")
    kernel, about = build.build("mine", None, [tmp_path / "a.patch"], 2, said.append, ["CONFIG_HZ=250"])
    # Before anything else; what it took on two processors.
    assert said[0] == "takes about 4 minutes on idle processors (--jobs 2)"
    assert about == kernels.remembered(kernel) == exact and not made.exists()
    patch = Input("a.patch", hashlib.sha256(b"a change").hexdigest())
    assert origin.recorded(kernel) == Origin(Input("linux.tar", "ab"), (patch,), ("CONFIG_HZ=250",))


def test_a_source_of_the_distribution_is_downloaded_once(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As apt does, which takes what is there if it has the digest of its lists; an older version is removed."""
    tools, downloads = tmp_path / "tools", tmp_path / "downloads"
    tools.mkdir()
    (tools / "apt-get").write_text(
        f"#!/bin/sh\nfile=linux-source-9.9_$VERSION.deb\n[ -e $file ] || echo x | tee $file >> {downloads}\n"
    )
    (tools / "dpkg-deb").write_text('#!/bin/sh\nmkdir -p "$3/usr/src"; cp "$2" "$3/usr/src/linux-source-9.9.tar.xz"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setattr(sources, "_installed", lambda: [sources.Package("linux-source-9.9", (9, 9))])
    said: list[str] = []
    for number, version in enumerate(("1", "1", "2")):
        monkeypatch.setenv("VERSION", version)
        scratch = tmp_path / f"scratch{number}"
        scratch.mkdir()
        assert sources.distribution(scratch, said.append) == (
            scratch / "package/usr/src/linux-source-9.9.tar.xz",
            f"linux-source-9.9.tar.xz of linux-source-9.9_{version}.deb",
        )
        sources.forget(scratch)
    assert len(downloads.read_text().splitlines()) == 2 and len(said) == 1
    assert [path.name for path in (own_cache / "narrows" / "packages").iterdir()] == ["linux-source-9.9_2.deb"]


def test_what_is_no_source_is_refused(tmp_path: Path) -> None:
    quiet = lambda _text: None  # noqa: E731
    with pytest.raises(InputError, match="is not a kernel tree: it has no Makefile"):
        build.build("mine", tmp_path, [], 1, quiet)
    with pytest.raises(InputError, match="is not there; allowed: a Linux tree"):
        build.build("mine", tmp_path / "nothing", [], 1, quiet)
    with pytest.raises(InputError, match=r"--patch .*nothing: is not there"):
        build.build("mine", None, [tmp_path / "nothing"], 1, quiet)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("NET_SCH_SFQ=y", "is not an option of a kernel; allowed: CONFIG_NAME=y"),
        ("CONFIG_NET_SCH_SFQ", "is not an option of a kernel"),
        ("CONFIG_NET_SCH_SFQ=m", "a guest loads no modules"),
        ("CONFIG_NET_SCH_SFQ=y\nCONFIG_NET=n", "is not an option of a kernel"),
        ('CONFIG_DEFAULT_TCP_CONG="a"b"', "is not an option of a kernel"),
        ("CONFIG_VETH=n", "a guest needs CONFIG_VETH=y"),
    ],
)
def test_what_is_no_option_is_refused_before_anything_is_fetched(option: str, said: str, own_cache: Path) -> None:
    with pytest.raises(InputError, match=said):
        build.build("mine", None, [], 1, lambda _text: None, [option])
    assert not own_cache.exists()


def configured(tmp_path: Path, options: list[str], knows: str) -> str:
    """What is in the configuration of a source that knows only some options; it drops all others, as kconfig does."""
    tree = tmp_path / "tree"
    (tree / "net" / "ipv4").mkdir(parents=True)
    (tree / "net" / "ipv4" / "Kconfig").write_text("config TCP_CONG_MINE\n\tbool\n")
    # As kconfig: the last of several lines of one name holds.
    (tree / "Makefile").write_text(
        "tinyconfig:\n\t: > .config\n"
        f"olddefconfig:\n\tgrep -E '^({knows})=' .config | tac | sort -u -t= -k1,1 > new; grep -v =n new > .config\n"
    )
    make = ["make", "-C", str(tree)]
    build._configure(tree, tree, make, tmp_path / "log", lambda _text: None, build._by_name(options))
    return (tree / ".config").read_text()


NEEDED = "|".join(line.partition("=")[0] for line in build._needed())


def test_options_of_the_users_are_read_back(tmp_path: Path) -> None:
    knows = f"{NEEDED}|CONFIG_NET_SCH_SFQ|CONFIG_NET_SCH_CAKE|CONFIG_TCP_CONG_MINE"
    options = ["CONFIG_NET_SCH_SFQ=n", "CONFIG_NET_SCH_SFQ=y", "CONFIG_NET_SCH_CAKE=n"]
    lines = configured(tmp_path, options, knows).splitlines()
    assert "CONFIG_NET_SCH_SFQ=y" in lines
    assert not any(line.startswith("CONFIG_NET_SCH_CAKE") for line in lines)


def test_an_option_that_a_source_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="--config CONFIG_NET_SCH_NEW=y: this source does not take it, it has CONFIG_NET_SCH_NEW=n"
    ):
        configured(tmp_path, ["CONFIG_NET_SCH_NEW=y"], NEEDED)


def test_a_name_that_leads_out_of_the_cache_is_refused() -> None:
    for name in ("../x", ".x", ""):
        with pytest.raises(InputError, match="is not a kernel's name"):
            kernels.directory(name)


def test_the_files_of_a_build_are_counted_before_it(tmp_path: Path) -> None:
    """As the kernel's make says what it compiles: quietly, by echo, in makes of its own."""
    compiles = "\t@set -e; echo '  CC      $@'; touch $@\n"
    (tmp_path / "Makefile").write_text(f"linux: a.o b.o\n\t$(MAKE) -f below\n%.o:\n{compiles}")
    (tmp_path / "below").write_text(f"all: c.o\n\t@echo '  LD      linux'\n%.o:\n{compiles}")
    make = ["make", "-C", str(tmp_path), "linux"]
    assert build.files_to_compile(make) == 3
    assert not (tmp_path / "a.o").exists()
    assert build.files_to_compile([*make, "--file=none"]) is None
    said: list[str] = []
    build.run(make, tmp_path / "log", said.append, "compiling", 3)
    assert (tmp_path / "log").read_text().count(build.COMPILED) == 3


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("net/a.c:7:1: error: implicit declaration", "net/a.c:7:1: error: implicit declaration"),
        ("ld: a.o: undefined reference to `b'", "ld: a.o: undefined reference to `b'"),
        ("no rule for it", "no rule for it\n" + "\n".join(f"line {number}" for number in range(1, 16))),
    ],
)
def test_why_a_build_failed(said: str, shown: str, tmp_path: Path) -> None:
    after = 40 if "error" in said or "undefined" in said else 15
    script = f'echo "$0"; for n in $(seq {after}); do echo "line $n"; done; exit 2'
    with pytest.raises(RunError) as caught:
        build.run(["sh", "-c", script, said], tmp_path / "log", None, "compiling")
    assert str(caught.value) == f"compiling failed:\n{shown}"
    assert f"line {after}" in (tmp_path / "log").read_text()


def test_the_time_left_is_said_where_the_files_are_known() -> None:
    assert build.progress(250, 1000, 20.0) == "250 of 1000 files in 20 s, about 60 s left"
    assert build.progress(1003, 1000, 80.0) == "1003 of 1000 files in 80 s, about 0 s left"
    assert build.progress(0, 1000, 10.0) == "0 files in 10 s"
    assert build.progress(250, None, 20.0) == "250 files in 20 s"


def test_a_configuration_stands_for_the_source(tmp_path: Path) -> None:
    """One line of one file is another kernel; where, when and by whom it was unpacked is not."""
    tree = tmp_path / "tree"
    (tree / "net" / "ipv4").mkdir(parents=True)
    (tree / "drivers" / "gpu").mkdir(parents=True)
    cubic, card = tree / "net" / "ipv4" / "tcp_cubic.c", tree / "drivers" / "gpu" / "card.c"
    cubic.write_text("beta = 717;")
    card.write_text("a")
    salts = [build.salt(tree)]
    assert build.OPTION.fullmatch(f"CONFIG_BUILD_SALT={salts[0]}")
    copied = tmp_path / "elsewhere" / "copied"
    shutil.copytree(tree, copied)
    (copied / "net" / "ipv4" / "tcp_cubic.c").chmod(0o600)
    os.utime(copied / "net" / "ipv4" / "tcp_cubic.c", (1, 1))
    # Left out where a source is unpacked for its own sake.
    (copied / "drivers" / "gpu" / "card.c").unlink()
    assert build.salt(copied) == salts[0]
    cubic.write_text("beta = 512;")
    salts.append(build.salt(tree))
    cubic.rename(cubic.with_name("tcp_cubic2.c"))
    salts.append(build.salt(tree))
    assert len(set(salts)) == 3


def booted(kernel: kernels.Kernel, ccas: tuple[str, ...]) -> About:
    return About("7.3", file_digest(kernel.path), "c", ccas, {}, 1, 1)


def test_what_is_remembered_of_a_kernel_is_of_its_image(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its file is called, and whoever replaces it, also while runs are made."""
    image = program(own_cache / "narrows" / "kernels" / "mine" / "linux", f"CONFIG_UML=y\n{kernels.TIME_TRAVEL}")
    # Its algorithm is in its file's last line but one.
    monkeypatch.setattr(probing, "boot", lambda kernel: booted(kernel, (kernel.path.read_text().splitlines()[-2],)))
    guests = Guests(kernels.find("mine"))
    assert guests.missing_cca("reno") != "" and guests.made_with["kernel_config_sha256"] == "c"
    assert kernels.remembered(kernels.find("mine")) == booted(kernels.find("mine"), (kernels.TIME_TRAVEL,))
    before = programs_of(guests)
    program(image, f"CONFIG_UML=y\n{kernels.TIME_TRAVEL}\nreno")
    assert kernels.remembered(kernels.find("mine")) is None
    assert guests.missing_cca("reno") == ""
    assert programs_of(guests) != before


def programs_of(guests: Guests) -> str:
    return file_digest(guests.programs["kernel image"])


def test_hints_repeat_how_a_kernel_was_built(tmp_path: Path, own_cache: Path) -> None:
    image = own_cache / "narrows" / "kernels" / "cubic-beta" / "linux"
    mine = kernels.Kernel("cubic-beta", image)
    # Never a stock kernel under another one's name.
    assert (
        kernels.build_command(mine)
        == "narrows kernel build --name cubic-beta, with its --source, --patch, --config or --cca"
    )
    kernels.remember_build("cubic-beta", [("--patch", "/a b.patch"), ("--config", "CONFIG_HZ=250")])
    command = "narrows kernel build --name cubic-beta --patch '/a b.patch' --config CONFIG_HZ=250"
    with pytest.raises(InputError, match=f"no such kernel is built; fix: {command}$"):
        kernels.find("cubic-beta")
    program(image, f"CONFIG_UML=y\n{kernels.TIME_TRAVEL}")
    assert kernels.build_command(kernels.find("cubic-beta")) == command
    kernels.remove("cubic-beta")
    assert kernels.build_command(mine) == command
    assert kernels.build_command(kernels.Kernel("default", image.parents[1] / "default" / "linux")) == kernels.BUILD
    assert kernels.build_command(kernels.Kernel("linux", tmp_path / "linux")) == kernels.BUILD


def test_compilers_are_not_in_a_digest() -> None:
    chosen = '# Linux/um 7.3.4 Kernel Configuration\nCONFIG_HZ=250\nCONFIG_BUILD_SALT="narrows-1"\n'
    here = (
        f"# Compiler: gcc 12\nCONFIG_GCC_VERSION=120200\nCONFIG_RUSTC_VERSION=109500\n{chosen}CONFIG_CC_HAS_INT128=y\n"
    )
    there = f"CONFIG_GCC_VERSION=140000\nCONFIG_RUSTC_HAS_SPAN_FILE=y\n{chosen}"
    assert kernels.digest_of(here) == kernels.digest_of(there)
    # What was chosen is in it, and so are the source's version and what became of it.
    changes = (
        ("250", "1000"),
        ("narrows-1", "narrows-2"),
        ("7.3.4", "7.3.5"),
        ("CONFIG_HZ", "CONFIG_SMP=y\nCONFIG_HZ"),
    )
    assert len({kernels.digest_of(text) for text in (chosen, *(chosen.replace(*one) for one in changes))}) == 5
