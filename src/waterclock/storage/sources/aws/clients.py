"""Clients of Amazon's services, made from the options of a connection.

This is the one place where such clients are made, for S3, SQS and Kinesis alike. Who calls is known
by keys, by a profile, or as the server itself is (its environment, its instance); any of these may
assume a role, whose keys are renewed as they expire. One `ENDPOINT` stands for all services, as
servers other than Amazon's want it.

A client may be used by several threads. Tasks on executors, which know nothing of the server's
profiles, are given `with_keys_of_now`, which can be pickled and lasts for as long as these keys do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.aws.errors import as_faults, invalid_connection, missing
from waterclock.storage.sources.errors import InvalidSource, TransientFault

KIND = "aws"
Service = Literal["kinesis", "s3", "sqs", "sts"]
_CONNECT_SECONDS = 10
_READ_SECONDS = 60
_ATTEMPTS: Mapping[Service, int] = {"kinesis": 1, "s3": 4, "sqs": 4, "sts": 4}
"""How often the library tries a request. Who reads a stream paces its requests itself."""
_POOL = 32
_DEFAULT_REGION = "us-east-1"
"""Where an `ENDPOINT` is given, the region matters for signatures only."""


@dataclass(frozen=True, slots=True)
class Role:
    """The role that is assumed."""

    arn: str
    session_name: str = "waterclock"
    external_id: str | None = None


@dataclass(frozen=True, slots=True)
class AwsAccess:
    """Where the services of a connection are, and who calls them. `name` is the connection's."""

    name: str
    region: str | None = None
    endpoint: str | None = None
    key_id: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None
    role: Role | None = None

    def open(self, service: Service) -> Any:
        """A client of the service, for whom the caller calls `close`.

        Raises `AwsMissing`, `InvalidSource` for options that make no sense, and `TransientFault`
        if nothing says who calls.
        """
        session = self._session()
        try:
            return session.client(
                service,
                region_name=self._region_of(session),
                endpoint_url=self.endpoint,
                config=_config(self.endpoint is not None, _ATTEMPTS[service]),
            )
        except ValueError as error:  # an endpoint that is no URL
            raise invalid_connection(self.name, f"{error}.") from None

    def with_keys_of_now(self) -> AwsAccess:
        """The same, known by nothing but keys, which may expire. Raises as `open` does."""
        session = self._session()
        with as_faults(self.name, "get credentials for AWS"):
            held = session.get_credentials()
            keys = None if held is None else held.get_frozen_credentials()
        if keys is None:
            raise TransientFault(
                "could not get credentials for AWS",
                detail=f'Connection "{self.name}" has no keys, and the server has none by itself.',
                hint="Give ACCESS KEY ID and SECRET ACCESS KEY, or a PROFILE.",
            )
        return replace(
            self,
            region=self._region_of(session),
            key_id=keys.access_key,
            secret_key=keys.secret_key,
            session_token=keys.token,
            profile=None,
            role=None,
        )

    def _session(self) -> Any:
        try:
            import boto3
        except ImportError:
            raise missing() from None
        from botocore.exceptions import ProfileNotFound

        try:
            session = boto3.Session(
                aws_access_key_id=self.key_id,
                aws_secret_access_key=self.secret_key,
                aws_session_token=self.session_token,
                region_name=self.region,
                profile_name=self.profile,
            )
        except ProfileNotFound:
            hint = "Profiles are those of the AWS configuration of the server's account."
            reason = f'The server has no profile "{self.profile}".'
            raise invalid_connection(self.name, reason, hint) from None
        return session if self.role is None else self._as_role(session, self.role)

    def _as_role(self, caller: Any, role: Role) -> Any:
        """A session that has the keys of the role, and new ones before they expire."""
        import boto3
        from botocore.credentials import (
            AssumeRoleCredentialFetcher,
            CredentialProvider,
            CredentialResolver,
            DeferredRefreshableCredentials,
        )
        from botocore.session import get_session

        region = self._region_of(caller)

        def open_sts(service: str, **keys: Any) -> Any:
            where = {"region_name": region, "endpoint_url": self.endpoint}
            return caller.client(service, **where, **keys, config=_config(False, _ATTEMPTS["sts"]))

        with as_faults(self.name, "get credentials for AWS"):
            source = caller.get_credentials()
        if source is None:
            raise invalid_connection(
                self.name,
                f'Nothing says who assumes role "{role.arn}".',
                "Give ACCESS KEY ID and SECRET ACCESS KEY, or a PROFILE.",
            )
        asked = {"RoleSessionName": role.session_name}
        if role.external_id is not None:
            asked["ExternalId"] = role.external_id
        fetcher = AssumeRoleCredentialFetcher(open_sts, source, role.arn, extra_args=asked)

        class AssumedRole(CredentialProvider):  # type: ignore[misc]
            METHOD = "assume-role"

            def load(self) -> Any:
                return DeferredRefreshableCredentials(fetcher.fetch_credentials, self.METHOD)

        inner = get_session()
        inner.register_component("credential_provider", CredentialResolver([AssumedRole()]))
        return boto3.Session(botocore_session=inner, region_name=region)

    def _region_of(self, session: Any) -> str:
        region = self.region or session.region_name
        if region is None and self.endpoint is not None:
            return _DEFAULT_REGION
        if region is None:
            reason = "Neither the connection nor the server's configuration names a region."
            raise invalid_connection(self.name, reason, "Give REGION.")
        return str(region)


def access_of(settings: ConnectionSettings) -> AwsAccess:
    """What the options of a connection say. Raises `InvalidSource` if it is not one to AWS."""
    if settings.kind != KIND:
        raise InvalidSource(f'connection "{settings.name}" is not one to AWS')
    given: Mapping[str, Any] = settings.options
    role = None
    if "assume role arn" in given:
        name = given.get("assume role session name", "waterclock")
        role = Role(given["assume role arn"], name, given.get("assume role external id"))
    return AwsAccess(
        settings.name,
        given.get("region"),
        given.get("endpoint"),
        given.get("access key id"),
        given.get("secret access key"),
        given.get("session token"),
        given.get("profile"),
        role,
    )


def _config(by_path: bool, attempts: int) -> Any:
    """How clients behave. With `by_path`, a bucket is part of the path and not of the host's name,
    as servers other than Amazon's want it."""
    from botocore.config import Config

    return Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=_POOL,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": "path"} if by_path else {},
        user_agent_extra="waterclock",
    )
