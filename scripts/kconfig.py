#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Kconfig for the build: kconfig.py sync BUILD | menuconfig | defconfig

sync BUILD   reads .config, or configs/vgpu_defconfig without one, and writes BUILD/config.mk and
             BUILD/config.h when their content changes (so that nothing is rebuilt without need)
menuconfig   edits .config
defconfig    makes .config from configs/vgpu_defconfig
"""
import os
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFIG = os.path.join(TOP, ".config")
DEFCONFIG = os.path.join(TOP, "configs", "vgpu_defconfig")
USER_SYMBOLS = "see `make menuconfig`"

os.chdir(TOP)
os.environ.setdefault("KCONFIG_CONFIG", CONFIG)

try:
    import kconfiglib
except ImportError:
    sys.exit("error: kconfiglib is missing; install it: apt-get install python3-kconfiglib")


def load():
    kconf = kconfiglib.Kconfig("Kconfig")
    source = CONFIG if os.path.exists(CONFIG) else DEFCONFIG
    kconf.load_config(source)
    for warning in kconf.warnings:
        print("warning:", warning, file=sys.stderr)
    return kconf


def write_if_changed(path, text):
    try:
        with open(path, encoding="utf-8") as old:
            if old.read() == text:
                return
    except FileNotFoundError:
        pass
    with open(path + ".new", "w", encoding="utf-8") as new:
        new.write(text)
    os.replace(path + ".new", path)


def sync(build):
    kconf = load()
    make = ["# Made from Kconfig; " + USER_SYMBOLS]
    header = ["/* Made from Kconfig; " + USER_SYMBOLS + " */", "#ifndef VGPU_CONFIG_H",
              "#define VGPU_CONFIG_H", ""]
    for symbol in kconf.unique_defined_syms:
        value = symbol.str_value
        name = "CONFIG_" + symbol.name
        if symbol.orig_type in (kconfiglib.BOOL, kconfiglib.TRISTATE):
            if value != "n":
                make.append("%s := %s" % (name, value))
                header.append("#define %s%s 1" % (name, "_MODULE" if value == "m" else ""))
        elif symbol.orig_type == kconfiglib.STRING:
            make.append("%s := %s" % (name, value))
            header.append('#define %s "%s"' % (name, kconfiglib.escape(value)))
        elif value:
            make.append("%s := %s" % (name, value))
            header.append("#define %s %s" % (name, value))
    header += ["", "#endif"]
    os.makedirs(build, exist_ok=True)
    write_if_changed(os.path.join(build, "config.mk"), "\n".join(make) + "\n")
    write_if_changed(os.path.join(build, "config.h"), "\n".join(header) + "\n")


def main(args):
    if args[:1] == ["sync"] and len(args) == 2:
        sync(args[1])
    elif args == ["menuconfig"]:
        import menuconfig
        if not os.path.exists(CONFIG):
            load().write_config(CONFIG)
        menuconfig.menuconfig(kconfiglib.Kconfig("Kconfig"))
    elif args == ["defconfig"]:
        kconf = kconfiglib.Kconfig("Kconfig")
        kconf.load_config(DEFCONFIG)
        print(kconf.write_config(CONFIG))
    else:
        sys.exit(__doc__)


main(sys.argv[1:])
