"""The command group and its error handling."""

import errno
import importlib
import io
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from zkbroker import __version__
from zkbroker.cli.output import say, say_lines
from zkbroker.cli.suggestions import no_such_command
from zkbroker.errors import ZkbrokerError

COMMANDS = {
    "up": "start a ZooKeeper and brokers on this machine",
    "broker": "run one broker from a property file",
    "zookeeper": "run a ZooKeeper without installing one",
    "topics": "list, create, describe, alter and delete topics",
    "configs": "describe and alter settings of topics and brokers, and quotas",
    "produce": "publish lines of standard input, or files",
    "consume": "print the messages of a topic",
    "kcat": "publish, print and list with kcat's own command line",
    "replay": "copy the messages of a topic into another one",
    "mirror": "copy topics of other clusters into one, and keep on",
    "perf": "measure how fast messages are published and read",
    "users": "say who may log in by SCRAM",
    "groups": "list, describe, verify and delete consumer groups",
    "transactions": "list, describe and abort transactions, find those that hang",
    "offsets": "look up log offsets; export, import and reset those of groups",
    "clients": "list which clients send which requests",
    "top": "show brokers, topics, groups and lag, live",
    "acls": "list, add and remove what clients are allowed",
    "metadata": "list brokers, partitions and leaders",
    "reassign": "move replicas when brokers come or go",
    "drain": "empty a broker before it is taken away",
    "elect": "let preferred replicas lead again",
    "adopt": "serve a data directory of genuine Kafka",
    "log": "check, repair and compact logs, end transactions left open",
    "dump-log": "print what segments and indexes hold",
    "log-dirs": "show the data directories of brokers, and the sizes in them",
    "records": "delete the older records of partitions",
    "api-versions": "show which versions of each API brokers speak",
