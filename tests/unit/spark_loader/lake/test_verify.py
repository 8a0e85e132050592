"""The offline proof notices whatever was done to a lake."""

import json

import pytest

from spark_loader import LoadError


@pytest.mark.parametrize("harm", ["change", "shorten", "remove", "add", "repeat"])
def test_verify_notices_every_harm(run, output, harm, command):
    run()
    assert "no gap, no duplicate" in command("verify", "--output", output)
    file = min(output.glob("topic=t/*/*/*.parquet"))
    content = file.read_bytes()
    if harm == "change":
        file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    elif harm == "shorten":
        file.write_bytes(content[:-1])
    elif harm == "remove":
        file.unlink()
    elif harm == "add":
        (file.parent / "stranger.parquet").write_bytes(content)
    else:
        manifest = next(output.glob("_zkbroker/manifests/*.json"))
        found = json.loads(manifest.read_text())
        twin = {**found["files"][0], "path": found["files"][0]["path"] + "x.parquet"}
        (output / twin["path"]).write_bytes((output / found["files"][0]["path"]).read_bytes())
        found["files"].append(twin)
        manifest.write_text(json.dumps(found))
    with pytest.raises(LoadError, match="problem"):
        command("verify", "--output", output)
