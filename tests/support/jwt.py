"""Tokens as API servers make them, with claims and without a signature that anybody checks."""

import base64
import json
from typing import Any

import yaml


def token(issued: float, ends: float | None, subject: str = "") -> str:
    """A JWT of the member's account, or of ``subject``."""
    named = subject or "system:serviceaccount:geotrain-system:geotrain-member"
    account = {"name": "geotrain-member", "uid": "account-1"}
    kubernetes = {"namespace": "geotrain-system", "serviceaccount": account}
    claims: dict[str, Any] = {"iat": issued, "sub": named, "kubernetes.io": kubernetes}
    if ends is not None:
        claims["exp"] = ends
    return ".".join(_part(each) for each in ({"alg": "RS256"}, claims, {}))


def kubeconfig(text: str, server: str = "https://member:6443") -> str:
    """A kubeconfig as ``geotrain join`` writes it, as YAML."""
    document = {
        "current-context": "member",
        "clusters": [{"name": "member", "cluster": {"server": server}}],
        "users": [{"name": "geotrain", "user": {"token": text}}],
        "contexts": [{"name": "member", "context": {"cluster": "member", "user": "geotrain"}}],
    }
    return yaml.safe_dump(document)


def _part(content: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()
