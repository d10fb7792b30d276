# cp infra/airflow/spanmarker_dag.py "$AIRFLOW_HOME/dags/" && airflow dags test spanmarker_tag
"""Tag a corpus every night in a single pod of a Kubernetes cluster.

Requires apache-airflow-providers-cncf-kubernetes, an image built from infra/containers/Dockerfile, and in NAMESPACE the
service account of infra/kubernetes/base/serviceaccount.yaml. Adapt the constants in capital letters below.
"""

from datetime import UTC, datetime, timedelta

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG
from kubernetes.client import models as k8s

SCHEDULE = "15 2 * * *"
NAMESPACE = "spanmarker"
SERVICE_ACCOUNT = "spanmarker"
STORAGE_SECRET = "spanmarker-storage"  # optional Secret in NAMESPACE with the store's keys as environment variables
IMAGE = "registry.example.com/spanmarker:0.1.0-cpu"
CPUS, MEMORY = "4", "8Gi"  # workers x threads, and workers x worker memory plus 1 GiB
TAG = [
    "tag",
    "--input=s3://my-corpus/documents/*.parquet",
    "--output=s3://my-corpus/entities/",
    "--workers=2",
    "--threads=2",
    "--worker-memory=3GiB",
    "--shard-timeout=1800",
    "--max-rejects=1%",
    "--prune",
    "--log-json=-",
]

with DAG(
    dag_id="spanmarker_tag",
    description="New and changed documents of a corpus to entity rows",
    schedule=SCHEDULE,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,  # a run processes everything that is missing, regardless of its date
    max_active_runs=1,
    tags=["spanmarker"],
) as dag:
    KubernetesPodOperator(
        task_id="tag",
        name="spanmarker-tag",
        namespace=NAMESPACE,
        image=IMAGE,
        arguments=TAG,
        # Exit code 5 means that another run holds the output, so there is nothing to do. All other errors are retried,
        # and a retry processes only what is missing. This helps for code 3 (some shards failed); codes 1, 2 and 4 fail
        # again at once.
        skip_on_exit_code=5,
        retries=3,
        retry_delay=timedelta(minutes=5),
        retry_exponential_backoff=True,
        execution_timeout=timedelta(hours=20),
        service_account_name=SERVICE_ACCOUNT,
        automount_service_account_token=False,
        env_from=[k8s.V1EnvFromSource(secret_ref=k8s.V1SecretEnvSource(name=STORAGE_SECRET, optional=True))],
        container_resources=k8s.V1ResourceRequirements(
            requests={"cpu": CPUS, "memory": MEMORY}, limits={"memory": MEMORY, "ephemeral-storage": "4Gi"}
        ),
        security_context=k8s.V1PodSecurityContext(
            run_as_non_root=True,
            run_as_user=10001,
            run_as_group=10001,
            seccomp_profile=k8s.V1SeccompProfile(type="RuntimeDefault"),
        ),
        container_security_context=k8s.V1SecurityContext(
            allow_privilege_escalation=False,
            read_only_root_filesystem=True,
            capabilities=k8s.V1Capabilities(drop=["ALL"]),
        ),
        volumes=[k8s.V1Volume(name="tmp", empty_dir=k8s.V1EmptyDirVolumeSource(size_limit="4Gi"))],
        volume_mounts=[k8s.V1VolumeMount(name="tmp", mount_path="/tmp")],
        termination_grace_period=60,
        startup_timeout_seconds=600,
        get_logs=True,
        log_pod_spec_on_failure=False,
        on_finish_action="delete_succeeded_pod",
    )
